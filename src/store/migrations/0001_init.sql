-- Times are milliseconds since 1970 UTC. Only constructs that SQLite and PostgreSQL share.

-- Without AUTOINCREMENT, which would write one more page per commit: the newest row is never deleted, so numbers rise.
CREATE TABLE deliveries (
    id          INTEGER PRIMARY KEY,
    forge       TEXT    NOT NULL,
    delivery    TEXT    NOT NULL,
    dedupe      TEXT,
    lane        TEXT,
    event       TEXT    NOT NULL,
    received_at BIGINT  NOT NULL,
    state       INTEGER NOT NULL DEFAULT 0,
    due_at      BIGINT  NOT NULL DEFAULT 0,
    tries       INTEGER NOT NULL DEFAULT 0,
    note        TEXT
);
CREATE UNIQUE INDEX deliveries_once ON deliveries (forge, delivery);
CREATE UNIQUE INDEX deliveries_same ON deliveries (forge, dedupe) WHERE dedupe IS NOT NULL;
CREATE INDEX deliveries_waiting ON deliveries (lane, id) WHERE state = 0;

CREATE TABLE repos (
    forge TEXT NOT NULL,
    repo  BIGINT NOT NULL,
    data  TEXT NOT NULL,
    PRIMARY KEY (forge, repo)
);

CREATE TABLE changes (
    forge      TEXT    NOT NULL,
    repo       BIGINT  NOT NULL,
    number     BIGINT  NOT NULL,
    head       TEXT    NOT NULL,
    open       INTEGER NOT NULL,
    updated_at BIGINT  NOT NULL,
    data       TEXT    NOT NULL,
    report_id  BIGINT,
    report     TEXT,
    members_report_id BIGINT,
    members_report    TEXT,
    PRIMARY KEY (forge, repo, number)
);
CREATE INDEX changes_head ON changes (forge, repo, head, open);
CREATE INDEX changes_age ON changes (updated_at);

CREATE TABLE heads (
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    delivery BIGINT NOT NULL,
    sha      TEXT   NOT NULL,
    PRIMARY KEY (forge, repo, number, delivery)
);

CREATE TABLE revisions (
    forge      TEXT   NOT NULL,
    repo       BIGINT NOT NULL,
    sha        TEXT   NOT NULL,
    known_from BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, sha)
);
CREATE INDEX revisions_age ON revisions (known_from);

-- Default branches: when each last moved.
CREATE TABLE branches (
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    name     TEXT   NOT NULL,
    sha      TEXT   NOT NULL,
    moved_at BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, name)
);

CREATE TABLE required (
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    base_ref TEXT   NOT NULL,
    names    TEXT   NOT NULL,
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, base_ref)
);

CREATE TABLE jobs (
    forge    TEXT    NOT NULL,
    repo     BIGINT  NOT NULL,
    sha      TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    scope    TEXT    NOT NULL,
    folded   TEXT    NOT NULL,
    state    TEXT    NOT NULL,
    bad      INTEGER NOT NULL,
    progress INTEGER NOT NULL,
    order1   BIGINT  NOT NULL,
    order2   BIGINT  NOT NULL,
    run      TEXT    NOT NULL,
    grp      TEXT,
    origin   TEXT    NOT NULL,
    cause    TEXT,
    url      TEXT,
    flags    INTEGER NOT NULL,
    needs    TEXT,
    at       BIGINT  NOT NULL,
    runner   TEXT,
    runs     INTEGER NOT NULL,
    platform   TEXT,
    standalone BOOLEAN,
    PRIMARY KEY (forge, repo, sha, name, scope)
) WITHOUT ROWID;
CREATE INDEX jobs_bad ON jobs (forge, repo, sha) WHERE bad = 1;
CREATE INDEX jobs_folded ON jobs (forge, repo, sha, folded);
CREATE INDEX jobs_group ON jobs (forge, repo, sha, grp, state);
CREATE INDEX jobs_age ON jobs (at);

CREATE TABLE retries (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    key    TEXT    NOT NULL UNIQUE,
    forge  TEXT    NOT NULL,
    repo   BIGINT  NOT NULL,
    number BIGINT  NOT NULL,
    sha    TEXT    NOT NULL,
    job    TEXT    NOT NULL,
    scope  TEXT    NOT NULL,
    runner TEXT    NOT NULL,
    state  TEXT    NOT NULL,
    open   INTEGER NOT NULL,
    owner  TEXT,
    grp    TEXT,
    due_at BIGINT  NOT NULL,
    made_at BIGINT NOT NULL,
    asker  BIGINT  NOT NULL,
    label  TEXT,
    data   TEXT    NOT NULL
);
CREATE UNIQUE INDEX retries_one_open ON retries (forge, repo, sha, job, scope) WHERE open = 1;
CREATE INDEX retries_due ON retries (due_at) WHERE open = 1;
CREATE INDEX retries_of_revision ON retries (forge, repo, number, sha);
CREATE INDEX retries_of_group ON retries (forge, repo, grp) WHERE open = 1 AND grp IS NOT NULL;
CREATE INDEX retries_of_asker ON retries (forge, asker, made_at);
CREATE INDEX retries_of_change ON retries (forge, repo, number, made_at);
CREATE INDEX retries_of_runner ON retries (runner, made_at);

-- Runs that ended badly: to be judged while due_at is set, and counted from afterwards. passed_at: the same job passed
-- on the same head later, so that the failure told nothing of the change.
CREATE TABLE failures (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    forge  TEXT    NOT NULL,
    repo   BIGINT  NOT NULL,
    sha    TEXT    NOT NULL,
    job    TEXT    NOT NULL,
    scope  TEXT    NOT NULL,
    run    TEXT    NOT NULL,
    runner TEXT,
    state  TEXT    NOT NULL,
    cause  TEXT,
    at     BIGINT  NOT NULL,
    due_at BIGINT,
    tries  INTEGER NOT NULL DEFAULT 0,
    label    TEXT,
    evidence TEXT,
    verdict  TEXT,
    passed_at BIGINT
);
CREATE UNIQUE INDEX failures_once ON failures (forge, repo, sha, job, scope, run);
CREATE INDEX failures_due ON failures (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX failures_of_runner ON failures (runner, at);
CREATE INDEX failures_of_job ON failures (forge, repo, job, at);
CREATE INDEX failures_age ON failures (at);
CREATE INDEX failures_passed ON failures (passed_at) WHERE passed_at IS NOT NULL;

-- Jobs that were proposed for a label, so that it is done once.
CREATE TABLE proposals (
    forge TEXT   NOT NULL,
    repo  BIGINT NOT NULL,
    job   TEXT   NOT NULL,
    at    BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, job)
);

-- Issues that label flakes, as they were told last; told: what our comment on it says.
CREATE TABLE flake_issues (
    forge    TEXT    NOT NULL,
    repo     BIGINT  NOT NULL,
    number   BIGINT  NOT NULL,
    open     INTEGER NOT NULL,
    data     TEXT    NOT NULL,
    comment  BIGINT,
    told     TEXT,
    due_at   BIGINT,
    tries    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (forge, repo, number)
);
CREATE INDEX flake_issues_due ON flake_issues (due_at) WHERE due_at IS NOT NULL;

-- When the issues of a repository were last listed.
CREATE TABLE issue_lists (
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (forge, repo)
);

-- What people decided about retries of a change that nobody asked for.
CREATE TABLE switches (
    forge  TEXT    NOT NULL,
    repo   BIGINT  NOT NULL,
    number BIGINT  NOT NULL,
    on_    INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    at     BIGINT  NOT NULL,
    PRIMARY KEY (forge, repo, number)
);

-- Statuses of ours that a person set to success.
CREATE TABLE overrides (
    forge   TEXT   NOT NULL,
    repo    BIGINT NOT NULL,
    sha     TEXT   NOT NULL,
    context TEXT   NOT NULL,
    actor   TEXT   NOT NULL,
    reason  TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, sha, context)
);
CREATE INDEX overrides_age ON overrides (at);

-- Runners whose unasked retries are held back. probe: the key of the retry that tries whether one has recovered.
CREATE TABLE breakers (
    runner TEXT PRIMARY KEY,
    data   TEXT   NOT NULL,
    probe  TEXT,
    at     BIGINT NOT NULL
);

-- Commits that a merge queue has tested at present.
CREATE TABLE queue_entries (
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    sha      TEXT   NOT NULL,
    number   BIGINT NOT NULL,
    base_ref TEXT   NOT NULL,
    at       BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, sha)
);
CREATE INDEX queue_entries_of_change ON queue_entries (forge, repo, number);

CREATE TABLE cancellations (
    retry  BIGINT PRIMARY KEY,
    due_at BIGINT NOT NULL,
    tries  INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE statuses (
    forge   TEXT   NOT NULL,
    repo    BIGINT NOT NULL,
    sha     TEXT   NOT NULL,
    context TEXT   NOT NULL,
    kind    TEXT   NOT NULL,
    data    TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, sha, kind, context)
);
CREATE INDEX statuses_age ON statuses (at);

CREATE TABLE unreported (
    forge  TEXT   NOT NULL,
    repo   BIGINT NOT NULL,
    number BIGINT NOT NULL,
    sha    TEXT   NOT NULL,
    due_at BIGINT NOT NULL,
    tries  INTEGER NOT NULL DEFAULT 0,
    mark   BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, number, sha)
);

CREATE TABLE reactions (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    forge  TEXT   NOT NULL,
    repo   BIGINT NOT NULL,
    number BIGINT NOT NULL,
    data   TEXT   NOT NULL,
    due_at BIGINT NOT NULL,
    tries  INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE answers (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    forge  TEXT   NOT NULL,
    repo   BIGINT NOT NULL,
    number BIGINT NOT NULL,
    sha    TEXT   NOT NULL,
    at     BIGINT NOT NULL,
    data   TEXT   NOT NULL
);
CREATE INDEX answers_of_change ON answers (forge, repo, number, id);

CREATE TABLE audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       BIGINT NOT NULL,
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    number   BIGINT NOT NULL,
    sha      TEXT   NOT NULL,
    job      TEXT   NOT NULL,
    what     TEXT   NOT NULL,
    internal INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX audit_of_job ON audit (forge, repo, number, job, id);

CREATE TABLE requests (
    client TEXT   NOT NULL,
    key    TEXT   NOT NULL,
    body   TEXT   NOT NULL,
    answer TEXT   NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (client, key)
);
CREATE INDEX requests_age ON requests (at);
CREATE TABLE policies (
    forge    TEXT   NOT NULL,
    repo     BIGINT NOT NULL,
    version  TEXT,
    text     TEXT,
    good     TEXT,
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (forge, repo)
);

CREATE TABLE policies_told (
    forge   TEXT   NOT NULL,
    repo    BIGINT NOT NULL,
    number  BIGINT NOT NULL,
    version TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (forge, repo, number, version)
);
CREATE INDEX policies_told_age ON policies_told (at);

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
