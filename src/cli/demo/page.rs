//! The demo's pages: an overview, and per change its conversation, comment box, statuses and jobs.
//!
//! Works without JavaScript (a link reloads); with it the page renews itself every second and keeps what is typed.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;

use super::markdown;
use super::stage::{GITHUB_REPO, GITLAB_REPO, HEAD, Stage};

pub(super) fn router(stage: Stage) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/{forge}", get(change))
        .route("/{forge}/live", get(live))
        .route("/{forge}/comment", post(comment))
        .with_state(stage)
}

/// One side of the demo as the page shows it.
struct View {
    forge: &'static str,
    title: String,
    place: String,
    comments: Vec<Said>,
    statuses: Vec<Light>,
    jobs: Vec<Light>,
}

struct Said {
    author: String,
    body: String,
    reactions: Vec<String>,
    edited: bool,
}

struct Light {
    name: String,
    state: String,
    text: String,
}

fn view(stage: &Stage, forge: &str) -> Option<View> {
    match forge {
        "github" => Some(github_view(stage)),
        "gitlab" => Some(gitlab_view(stage)),
        _ => None,
    }
}

fn github_view(stage: &Stage) -> View {
    let pull = stage.github.pulls(GITHUB_REPO).into_iter().find(|p| p.number == stage.pull);
    let comments = stage.github.comments(GITHUB_REPO, stage.pull).into_iter().map(|c| Said {
        author: c.author,
        body: c.body,
        reactions: c.reactions.into_iter().map(|(_, content)| content).collect(),
        edited: c.edits > 0,
    });
    let statuses = stage.github.statuses(GITHUB_REPO, HEAD).into_iter().map(|s| Light {
        name: s.context,
        state: s.state,
        text: s.description,
    });
    let jobs = stage.github.jobs(GITHUB_REPO, HEAD).into_iter().map(|j| Light {
        name: j.name,
        state: j.conclusion.unwrap_or(j.status),
        text: format!("attempt {}", j.attempt),
    });
    View {
        forge: "github",
        title: pull.map(|p| p.title).unwrap_or_default(),
        place: format!("{GITHUB_REPO} · pull request #{}", stage.pull),
        comments: comments.collect(),
        statuses: statuses.collect(),
        jobs: newest(jobs.collect()),
    }
}

fn gitlab_view(stage: &Stage) -> View {
    let request = stage.gitlab.merge_requests(stage.project).into_iter().find(|m| m.iid == stage.merge_request);
    let comments = stage.gitlab.notes(stage.project, stage.merge_request).into_iter().map(|n| Said {
        author: n.author,
        body: n.body,
        reactions: n.emoji.into_iter().map(|(_, name)| name).collect(),
        edited: n.edits > 0,
    });
    let statuses = stage.gitlab.statuses(stage.project, HEAD).into_iter().map(|s| Light {
        name: s.name,
        state: s.state,
        text: s.description.unwrap_or_default(),
    });
    let jobs = stage.gitlab.jobs(stage.pipeline).into_iter().filter(|j| !j.retried).map(|j| Light {
        name: j.name,
        state: j.status,
        text: format!("job {}", j.id),
    });
    View {
        forge: "gitlab",
        title: request.map(|m| m.title).unwrap_or_default(),
        place: format!("{GITLAB_REPO} · merge request !{}", stage.merge_request),
        comments: comments.collect(),
        statuses: newest(statuses.collect()),
        jobs: newest(jobs.collect()),
    }
}

/// The last entry of each name, in order of first appearance.
fn newest(lights: Vec<Light>) -> Vec<Light> {
    let mut out: Vec<Light> = Vec::new();
    for light in lights {
        match out.iter_mut().find(|l| l.name == light.name) {
            Some(slot) => *slot = light,
            None => out.push(light),
        }
    }
    out
}

async fn overview(State(stage): State<Stage>) -> Response {
    let views = [github_view(&stage), gitlab_view(&stage)];
    page(
        "retest-bot demo",
        html! {
            h1 { "retest-bot demo" }
            p { "Two forges, their CI and the bot run in this process. Open a change and comment on it. "
                "The bot answers at " code { (stage.bot_url) } "; its metrics are at " code { (stage.bot_url) "/metrics" } "." }
            @for view in views {
                a.card href=(format!("/{}", view.forge)) {
                    strong { (view.title) }
                    span.dim { (view.place) }
                    span.dots { @for light in view.statuses.iter().chain(&view.jobs) { (dot(&light.state)) } }
                }
            }
        },
    )
}

async fn change(State(stage): State<Stage>, Path(forge): Path<String>) -> Response {
    let Some(view) = view(&stage, &forge) else { return StatusCode::NOT_FOUND.into_response() };
    page(
        &view.title,
        html! {
            p { a href="/" { "← both changes" } }
            h1 { (view.title) }
            p.dim { (view.place) " · head " code { (HEAD.get(..7).unwrap_or(HEAD)) } }
            div #live { (living(&view)) }
            form method="post" action=(format!("/{forge}/comment")) {
                label { "Comment as "
                    select name="login" {
                        option value="ann" { "ann (author)" }
                        option value="maya" { "maya (maintainer)" }
                        option value="sam" { "sam (may only read)" }
                    }
                }
                textarea name="body" rows="3" aria-label="Comment" placeholder="/retest lava-x86" {}
                button { "Comment" }
                span.dim { " Try " code { "/retest lava-x86" } ", " code { "/retest" } ", " code { "/retest ?" } ", " code { "/retset" } ", " code { "/help" } "." }
            }
            noscript { p { a href=(format!("/{forge}")) { "Reload" } } }
            script { (PreEscaped("const live=document.getElementById('live');setInterval(async()=>{const r=await fetch(location.pathname+'/live');if(r.ok)live.innerHTML=await r.text()},1000)")) }
        },
    )
}

async fn live(State(stage): State<Stage>, Path(forge): Path<String>) -> Response {
    match view(&stage, &forge) {
        Some(view) => living(&view).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

#[derive(Deserialize)]
struct NewComment {
    login: String,
    body: String,
}

async fn comment(State(stage): State<Stage>, Path(forge): Path<String>, Form(new): Form<NewComment>) -> Response {
    if !["ann", "maya", "sam"].contains(&new.login.as_str()) {
        return (StatusCode::BAD_REQUEST, "the demo knows ann, maya and sam\n").into_response();
    }
    match forge.as_str() {
        "github" if !new.body.trim().is_empty() => {
            stage.github.comment(GITHUB_REPO, stage.pull, &new.login, &new.body);
        }
        "gitlab" if !new.body.trim().is_empty() => {
            stage.gitlab.note(stage.project, stage.merge_request, &new.login, &new.body);
        }
        "github" | "gitlab" => {}
        _ => return StatusCode::NOT_FOUND.into_response(),
    }
    Redirect::to(&format!("/{forge}")).into_response()
}

fn living(view: &View) -> Markup {
    html! {
        div.columns {
            section {
                h2 { "Conversation" }
                @if view.comments.is_empty() { p.dim { "Nobody has said anything yet." } }
                @for said in &view.comments {
                    article {
                        header { strong { (said.author) } @if said.edited { span.dim { " · edited" } } }
                        div.body { (PreEscaped(markdown::render(&said.body))) }
                        @if !said.reactions.is_empty() {
                            footer { @for name in &said.reactions { span.reaction title=(name) { (emoji(name)) } } }
                        }
                    }
                }
            }
            section {
                h2 { "Statuses" }
                (lights(&view.statuses))
                h2 { "Jobs of the forge's CI" }
                (lights(&view.jobs))
            }
        }
    }
}

fn lights(list: &[Light]) -> Markup {
    html! {
        ul.lights {
            @for light in list {
                li { (dot(&light.state)) " " strong { (light.name) } " " span.dim { (light.state) @if !light.text.is_empty() { " · " (light.text) } } }
            }
        }
    }
}

fn dot(state: &str) -> Markup {
    let class = match state {
        "success" => "good",
        "failure" | "failed" | "error" | "timed_out" => "bad",
        "pending" | "queued" | "in_progress" | "running" | "created" => "busy",
        _ => "off",
    };
    html! { span class=(format!("dot {class}")) title=(state) {} }
}

fn emoji(name: &str) -> &str {
    match name {
        "eyes" => "👀",
        "rocket" => "🚀",
        "confused" => "😕",
        "+1" | "thumbsup" => "👍",
        other => other,
    }
}

fn page(title: &str, body: Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    };
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'self'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], markup).into_response()
}

const STYLE: &str = "
:root{color-scheme:light dark;--line:#8884;--card:#8881}
body{font:16px/1.5 system-ui,sans-serif;margin:0}
main{max-width:70rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1rem;margin:1.2rem 0 .5rem}
.dim{opacity:.75;font-size:.9rem}
.columns{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,1fr);gap:2rem}
@media(max-width:48rem){.columns{grid-template-columns:minmax(0,1fr);gap:0}}
article{border:1px solid var(--line);border-radius:.5rem;margin:0 0 .8rem;overflow-wrap:anywhere}
article header{background:var(--card);padding:.3rem .8rem;border-bottom:1px solid var(--line)}
article .body{padding:.1rem .8rem}article .body h3{font-size:1rem}
article footer{padding:0 .8rem .5rem}
.reaction{border:1px solid var(--line);border-radius:1rem;padding:.1rem .5rem;margin-right:.3rem}
.lights{list-style:none;padding:0;margin:0}.lights li{padding:.15rem 0;overflow-wrap:anywhere}
.dot{display:inline-block;width:.75rem;height:.75rem;border-radius:50%;background:#888}
.good{background:#1a8a3c}.bad{background:#d1242f}.busy{background:#d4a017;animation:p 1s infinite alternate}
@keyframes p{to{opacity:.4}}
form{border-top:1px solid var(--line);margin-top:1rem;padding-top:1rem}
textarea{display:block;width:100%;box-sizing:border-box;font:inherit;font-family:ui-monospace,monospace;margin:.5rem 0}
button,select{font:inherit;padding:.2rem .8rem}
code{font-family:ui-monospace,monospace;font-size:.9em;background:var(--card);padding:0 .25rem;border-radius:.25rem}
.card{display:flex;flex-direction:column;border:1px solid var(--line);border-radius:.5rem;padding:.8rem;margin:.8rem 0;color:inherit;text-decoration:none}
.dots .dot{margin-right:.3rem}
";
