//! Renders a comment as a forge would: CommonMark, with every bit of raw HTML shown as text.

use pulldown_cmark::{Event, Options, Parser, html};

/// Comment text as safe HTML. `<sub>` and HTML comments, which our own report uses, are honoured; nothing else is.
pub(super) fn render(text: &str) -> String {
    let events =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).map(|event| match event {
            Event::Html(raw) | Event::InlineHtml(raw) => match raw.trim() {
                "<sub>" | "</sub>" => Event::InlineHtml(raw),
                hidden if hidden.starts_with("<!--") && hidden.ends_with("-->") => Event::Text("".into()),
                _ if raw.starts_with("<sub>") => Event::Text(raw.replace("<sub>", "").replace("</sub>", "").into()),
                _ => Event::Text(raw),
            },
            other => other,
        });
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn raw_html_of_a_comment_is_shown_not_obeyed() {
        for text in ["<script>alert(1)</script>", "a <img src=x onerror=alert(1)> b", "<iframe src=//x>"] {
            let html = render(text);
            assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("<iframe"), "{html}");
        }
    }
}
