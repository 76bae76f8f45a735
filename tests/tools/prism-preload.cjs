// Loaded before Prism. Changes three habits of its proxy:
//
// 1. Redirects go to the client instead of being followed, as GitHub's clients must see them (the log of a job is a
//    302, a renamed repository a 301).
// 2. Each exchange that does not fit the description is one line on standard output, with the reasons, so that a test
//    can collect them: `violation POST /repos/o/r/statuses/abc 422 [{…}]`.
// 3. `ready http://127.0.0.1:PORT` is printed once connections are accepted, also for port 0, which means any free one.
const { Server, ServerResponse } = require("node:http");
const net = require("node:net");
const nodeFetch = require(`${process.env.RETEST_TOOLS}/node_modules/node-fetch`);

const follow = nodeFetch.default;
nodeFetch.default = (url, options) => follow(url, { ...options, redirect: "manual" });

/** What Prism holds against this exchange, or undefined. A stand-in may fail (4xx, 5xx) in undocumented ways. */
function violation(response, body) {
  if (String(response.getHeader("content-type")).includes("problem+json")) {
    const problem = JSON.parse(body);
    const madeByPrism = problem.type.includes("/prism/errors#");
    return madeByPrism ? JSON.stringify(problem.validation ?? problem.detail) : undefined;
  }
  return response.statusCode < 400 ? response.getHeader("sl-violations") : undefined;
}

const end = ServerResponse.prototype.end;
ServerResponse.prototype.end = function endAndTell(body, ...rest) {
  const found = violation(this, body);
  if (found !== undefined) console.log(`violation ${this.req.method} ${this.req.url} ${this.statusCode} ${found}`);
  return end.call(this, body, ...rest);
};

Server.prototype.listen = function listenAndTell(...options) {
  this.once("listening", () => console.log(`ready http://127.0.0.1:${this.address().port}`));
  return net.Server.prototype.listen.apply(this, options);
};
