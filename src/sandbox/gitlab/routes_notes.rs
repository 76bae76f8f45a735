//! Notes on merge requests and issues, and the emoji that people award them.
//!
//! Quick actions are stripped before a note is saved; a note of nothing else is not saved and answers 202.
//! Read next: `quick_actions.rs`.

use serde_json::json;

use super::ask::{Answer, Ask, Outcome, page};
use super::new::{NewNote, NoteKind};
use super::quick_actions;
use super::routes_project::{need, number};
use super::state::{Award, Kind, MAINTAINER, Note, On, State};

/// Lowest level that sees internal notes.
const REPORTER: u64 = 20;

/// Longest text of a note, in characters.
const NOTE_MAX: usize = 1_000_000;

pub(super) fn serve(state: &mut State, ask: &Ask, (project, on): (u64, On), tail: &[&str]) -> Outcome {
    match (ask.method.as_str(), tail) {
        ("GET", []) => Ok(list(state, ask, project, on)),
        ("POST", []) => create(state, ask, project, on),
        ("GET", [id]) => {
            let note = find(state, ask, (project, on), id)?;
            Ok(Answer::ok(state.note_body(note)))
        }
        ("PUT", [id]) => edit(state, ask, (project, on), id),
        ("DELETE", [id]) => {
            let note = find(state, ask, (project, on), id)?;
            let (id, author) = (note.id, note.author);
            if author != ask.user {
                need(state, ask, project, MAINTAINER)?;
            }
            state.notes.remove(&id);
            Ok(Answer::nothing())
        }
        ("GET", [id, "award_emoji"]) => {
            let note = find(state, ask, (project, on), id)?;
            Ok(page(&state.base, ask, note.awards.iter().collect(), |award| state.award_body(note, award)))
        }
        ("POST", [id, "award_emoji"]) => award(state, ask, (project, on), id),
        ("DELETE", [id, "award_emoji", award]) => {
            let note = find(state, ask, (project, on), id)?.id;
            let award = number(award, "award_id")?;
            let own = |known: &Award| known.id == award && known.user == ask.user;
            let awards = &mut state.notes.get_mut(&note).ok_or_else(Answer::no_row)?.awards;
            let at = awards.iter().position(own).ok_or_else(Answer::no_row)?;
            awards.remove(at);
            Ok(Answer::nothing())
        }
        _ => Err(Answer::no_route()),
    }
}

fn sees_internal(state: &State, ask: &Ask, project: u64) -> bool {
    state.level(project, ask.user) >= REPORTER
}

fn list(state: &State, ask: &Ask, project: u64, on: On) -> Answer {
    let shows = |note: &&Note| {
        let wanted = match ask.some("activity_filter") {
            Some("only_comments") => !note.system,
            Some("only_activity") => note.system,
            _ => true,
        };
        wanted && (!note.internal || sees_internal(state, ask, project))
    };
    let mut notes: Vec<&Note> = state.notes_on(project, on).filter(shows).collect();
    if ask.some("order_by") == Some("updated_at") {
        notes.sort_by_key(|note| note.updated_ms);
    }
    if ask.some("sort") != Some("asc") {
        notes.reverse();
    }
    page(&state.base, ask, notes, |note| state.note_body(note))
}

fn find<'a>(state: &'a State, ask: &Ask, (project, on): (u64, On), id: &str) -> Result<&'a Note, Answer> {
    let note = state.notes.get(&number(id, "note_id")?);
    let note = note.filter(|note| note.project == project && note.on == on);
    let shown = note.filter(|note| !note.internal || sees_internal(state, ask, project));
    shown.ok_or_else(Answer::no_row)
}

fn body_of(ask: &Ask) -> Result<&str, Answer> {
    let body = ask.text("body").ok_or_else(|| Answer::error(400, "body is missing"))?;
    if body.trim().is_empty() {
        return Err(Answer::message(400, "400 Bad request - Note {:note=>[\"can't be blank\"]}"));
    }
    if body.chars().count() > NOTE_MAX {
        return Err(Answer::field("note", "is too long (maximum is 1000000 characters)"));
    }
    Ok(body)
}

fn create(state: &mut State, ask: &Ask, project: u64, on: On) -> Outcome {
    let body = body_of(ask)?;
    let internal = ask.flag("internal") == Some(true) || ask.flag("confidential") == Some(true);
    if internal && !sees_internal(state, ask, project) {
        return Err(Answer::forbidden());
    }
    let kind = if internal { NoteKind::Internal } else { NoteKind::Plain };
    let (_, lines) = quick_actions::split(body);
    match state.write_note(project, on, ask.user, NewNote { body: body.to_owned(), kind }) {
        Some(id) => {
            let note = state.notes.get(&id).ok_or_else(Answer::no_row)?;
            Ok(Answer::created(state.note_body(note)))
        }
        None => Ok(Answer::json(202, json!({"commands_changes": {}, "summary": lines}))),
    }
}

/// `POST …/discussions/:discussion_id/notes`: a reply in the thread.
pub(super) fn reply(state: &mut State, ask: &Ask, (project, on): (u64, On), thread: &str) -> Outcome {
    let body = body_of(ask)?.to_owned();
    let first = state.notes_on(project, on).find(|note| note.discussion == thread).map(|note| note.id);
    let first = first.ok_or_else(|| Answer::not_found("Discussion"))?;
    let made = state.write_note(project, on, ask.user, NewNote { body, kind: NoteKind::ReplyTo(first) });
    let note = made.and_then(|id| state.notes.get(&id)).ok_or_else(Answer::no_row)?;
    Ok(Answer::created(state.note_body(note)))
}

fn edit(state: &mut State, ask: &Ask, place: (u64, On), id: &str) -> Outcome {
    let body = body_of(ask)?;
    let note = find(state, ask, place, id)?;
    let (id, author) = (note.id, note.author);
    if author != ask.user {
        need(state, ask, place.0, MAINTAINER)?;
    }
    state.edit_note(id, ask.user, body);
    let note = state.notes.get(&id).ok_or_else(Answer::no_row)?;
    Ok(Answer::ok(state.note_body(note)))
}

/// Names are those of the emoji without colons. The same one twice by one person is refused with 404.
fn award(state: &mut State, ask: &Ask, place: (u64, On), note: &str) -> Outcome {
    let name = ask.some("name").ok_or_else(|| Answer::error(400, "name is missing"))?.to_owned();
    let note = find(state, ask, place, note)?;
    let known_word =
        name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_+-".contains(letter));
    if !known_word {
        return Err(Answer::not_found("Award Emoji Name is not a valid emoji name"));
    }
    if note.awards.iter().any(|award| award.user == ask.user && award.name == name) {
        return Err(Answer::not_found("Award Emoji Name has already been taken"));
    }
    let note = note.id;
    let award = Award { id: state.id(Kind::Award), user: ask.user, name };
    let note = state.notes.get_mut(&note).ok_or_else(Answer::no_row)?;
    note.awards.push(award.clone());
    let note = note.clone();
    Ok(Answer::created(state.award_body(&note, &award)))
}
