// Writes one small reply body for each answer of the description's subset: for authors of a stand-in GitHub, whose
// replies must satisfy the description too. Usage: node sample-bodies.mjs SUBSET.json FOLDER
//
// A body holds only what the schema requires, with the description's own example values where it has them.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";

const [subsetFile, folder] = process.argv.slice(2);
const description = JSON.parse(readFileSync(subsetFile, "utf8"));
mkdirSync(folder, { recursive: true });

const resolve = (node) => {
  while (node?.$ref) {
    const [, , kind, name] = node.$ref.split("/");
    node = description.components[kind][name];
  }
  return node;
};

const byFormat = {
  uri: "https://api.github.com/",
  "date-time": "2026-01-01T00:00:00Z",
  date: "2026-01-01",
  email: "ann@example.org",
};

/** A smallest value of `schema`; `example` is what the description shows at this place, `seen` guards against cycles. */
function sample(schema, example, seen = []) {
  schema = resolve(schema);
  if (seen.filter((outer) => outer === schema).length > 1) return schema.nullable ? null : {};
  const inner = [...seen, schema];
  if (schema.allOf) {
    const parts = schema.allOf.map((part) => sample(part, example, inner));
    return parts.every((part) => part && typeof part === "object" && !Array.isArray(part)) ? Object.assign({}, ...parts) : parts[0];
  }
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices && !schema.properties) return sample(choices.find((choice) => resolve(choice).type !== "object") && typeof example !== "object" ? choices.find((choice) => resolve(choice).type !== "object") : choices[0], example, inner);
  example = example ?? schema.example ?? schema.default;
  if (schema.type === "array") {
    const shown = Array.isArray(example) ? example[0] : undefined;
    const length = schema.minItems ?? (seen.length < 2 ? 1 : 0);
    return Array.from({ length }, () => sample(schema.items ?? {}, shown, inner));
  }
  if (schema.type === "object" || schema.properties) {
    if (schema.nullable && (example === null || (example === undefined && seen.length > 2))) return null;
    const shown = example && typeof example === "object" && !Array.isArray(example) ? example : {};
    const body = {};
    for (const name of schema.required ?? []) body[name] = sample(schema.properties?.[name] ?? {}, shown[name], inner);
    return body;
  }
  if (schema.nullable && (example === undefined || example === null)) return null;
  if (schema.enum) return schema.enum.includes(example) ? example : schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "integer" || type === "number") return typeof example === "number" ? example : (schema.minimum ?? 1);
  if (type === "boolean") return typeof example === "boolean" ? example : false;
  if (type === "string") {
    if (schema.format in byFormat && !(typeof example === "string" && example !== "")) return byFormat[schema.format];
    return typeof example === "string" ? example : "x".repeat(schema.minLength ?? 1);
  }
  return example ?? {};
}

const index = [];
for (const [path, item] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(item)) {
    if (!operation.responses) continue;
    for (const [code, reference] of Object.entries(operation.responses)) {
      const reply = resolve(reference);
      const kinds = Object.entries(reply.content ?? {});
      const [type, media] = kinds.find(([kind]) => kind === "application/json") ?? kinds[0] ?? [];
      const errors = Number(code) >= 400;
      if (errors && !["403", "422"].includes(code)) continue;
      const headers = Object.entries(reply.headers ?? {}).map(([name, header]) => name + (resolve(header).required ? " (required)" : ""));
      const entry = { method: method.toUpperCase(), path, code: Number(code), type, headers, operation: operation.operationId };
      if (media && !errors) {
        const shown = media.example ?? resolve(Object.values(media.examples ?? {})[0])?.value;
        const body = sample(media.schema ?? {}, shown);
        entry.file = `${method}-${path.replace("/repos/{owner}/{repo}", "repo").replace(/[{}]/g, "").replace(/^\//, "").replaceAll("/", ".")}.${code}.json`;
        writeFileSync(`${folder}/${entry.file}`, JSON.stringify(body, null, 2) + "\n");
      }
      index.push(entry);
    }
  }
}
writeFileSync(`${folder}/index.json`, JSON.stringify(index, null, 1) + "\n");
console.log(`sample-bodies: ${index.filter((entry) => entry.file).length} bodies in ${folder}`);
