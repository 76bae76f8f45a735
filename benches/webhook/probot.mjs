// The same duty on Probot: a new comment on a pull request is looked through for a `/retest` line. Nothing is stored.
import { run } from "probot";

let commands = 0;

run((app) => {
  app.on("issue_comment.created", async ({ payload }) => {
    const lines = payload.comment.body.split("\n").map((line) => line.trim());
    if (payload.issue.pull_request && lines.some((line) => line === "/retest" || line.startsWith("/retest "))) {
      commands += 1;
    }
  });
});
