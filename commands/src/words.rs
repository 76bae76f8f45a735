//! Splits the rest of a command line into words.
//!
//! Blanks and commas separate. Quotes, smart quotes and back-ticks hold a word together and make it literal; brackets
//! hold together what is in them, and a bracket after a word belongs to it, as in `test (ubuntu, 3.11)`; so does
//! ` / `, as in `build / test`. Autocorrect's dashes become `-` and `--` outside quotes. ` -- ` and `# ` begin a remark.
//! No escapes, no expansion: nothing here is a shell. Linear in the length of the line.

use crate::normalise::is_blank;

/// One word and where it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Without quotes, dashes folded.
    pub text: String,
    /// It began with a quote, so it is taken literally.
    pub quoted: bool,
    /// A comma stood before it.
    pub after_comma: bool,
    /// First byte of it in the line.
    pub start: usize,
    /// The byte after it.
    pub end: usize,
}

/// A line in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub words: Vec<Word>,
    /// What follows ` -- ` or `# `, trimmed, never empty.
    pub remark: Option<String>,
}

/// A quote without its end: the text from it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unclosed(pub String);

/// Splits a cleaned line.
///
/// # Errors
/// [`Unclosed`] when a quote is not closed.
pub(crate) fn split(line: &str) -> Result<Split, Unclosed> {
    let chars: Vec<(usize, char)> = line.char_indices().collect();
    let mut reader = Reader { line, bracket_end: bracket_ends(&chars), chars, at: 0 };
    let mut out = Split::default();
    loop {
        let after_comma = reader.skip_separators();
        if reader.peek(0).is_none() {
            break;
        }
        if let Some(remark) = reader.remark() {
            out.remark = Some(remark.trim().to_owned()).filter(|r| !r.is_empty());
            break;
        }
        let start = reader.offset();
        let (text, quoted) = reader.word()?;
        out.words.push(Word { text, quoted, after_comma, start, end: reader.offset() });
    }
    out.words = join(out.words);
    Ok(out)
}

/// Folds the dashes of an unquoted stretch, runs of blanks to one space.
pub(crate) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split(is_blank).filter(|w| !w.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        for c in word.chars() {
            push_folded(c, &mut out);
        }
    }
    out
}

/// A comma of any keyboard.
pub(crate) fn is_comma(c: char) -> bool {
    matches!(c, ',' | '，' | '、' | '﹐')
}

/// Ends a sentence or a clause; said after a word, it is not part of it.
pub(crate) fn is_end_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | ':' | '…' | '。' | '！' | '？' | '：' | '‼' | '⁉') || is_comma(c)
}

fn is_dash(c: char) -> bool {
    matches!(c, '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}')
}

fn is_long_dash(c: char) -> bool {
    matches!(c, '\u{2014}' | '\u{2015}' | '\u{fe58}')
}

fn push_folded(c: char, out: &mut String) {
    if is_long_dash(c) {
        out.push_str("--");
    } else if is_dash(c) {
        out.push('-');
    } else {
        out.push(c);
    }
}

/// Whether `close` ends what `open` began. Quotes of one class end each other: phones mix them.
fn closes(open: char, close: char) -> bool {
    let class = |c: char| match c {
        '"' | '“' | '”' | '„' | '‟' | '«' | '»' | '「' | '」' => Some(0),
        '\'' | '‘' | '’' | '‚' | '‛' | '‹' | '›' => Some(1),
        '`' => Some(2),
        _ => None,
    };
    class(open).is_some() && class(open) == class(close)
}

fn is_quote(c: char) -> bool {
    closes(c, c)
}

/// For each opening bracket, by its place, the place of its closing one.
fn bracket_ends(chars: &[(usize, char)]) -> Vec<Option<usize>> {
    let mut ends = vec![None; chars.len()];
    let mut open: Vec<(usize, char)> = Vec::new();
    for (at, (_, c)) in chars.iter().enumerate() {
        match c {
            '(' => open.push((at, ')')),
            '[' => open.push((at, ']')),
            '{' => open.push((at, '}')),
            ')' | ']' | '}' if open.last().is_some_and(|(_, wanted)| wanted == c) => {
                if let Some((from, _)) = open.pop() {
                    ends[from] = Some(at);
                }
            }
            _ => {}
        }
    }
    ends
}

struct Reader<'l> {
    line: &'l str,
    chars: Vec<(usize, char)>,
    bracket_end: Vec<Option<usize>>,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).map(|(_, c)| *c)
    }

    fn offset(&self) -> usize {
        self.chars.get(self.at).map_or(self.line.len(), |(offset, _)| *offset)
    }

    fn rest(&self) -> &str {
        self.line.get(self.offset()..).unwrap_or_default()
    }

    /// Moves to the next word; whether a comma was passed.
    fn skip_separators(&mut self) -> bool {
        let mut comma = false;
        while let Some(c) = self.peek(0).filter(|c| is_blank(*c) || is_comma(*c)) {
            comma |= is_comma(c);
            self.at += 1;
        }
        comma
    }

    /// The remark that begins here: `-- why`, `— why`, `# why`.
    fn remark(&self) -> Option<&str> {
        let blank_at = |ahead| self.peek(ahead).is_none_or(is_blank);
        let mark = match self.peek(0)? {
            '-' if self.peek(1) == Some('-') && blank_at(2) => 2,
            '#' if blank_at(1) => 1,
            c if is_dash(c) && blank_at(1) => c.len_utf8(),
            _ => return None,
        };
        self.rest().get(mark..)
    }

    /// Reads one word; whether it began with a quote.
    fn word(&mut self) -> Result<(String, bool), Unclosed> {
        let mut text = String::new();
        let quoted = self.peek(0).is_some_and(is_quote);
        if quoted {
            self.quotation(&mut text)?;
            self.skip_end_marks();
        } else if self.peek(0).is_some_and(is_dash) {
            text.push_str("--");
            self.at += 1;
        }
        let mut before = None;
        while let Some(c) = self.peek(0) {
            if is_blank(c) || (is_comma(c) && !self.is_comma_in_page(&text)) {
                break;
            }
            if before == Some('=') && is_quote(c) {
                self.quotation(&mut text)?;
            } else if let Some(end) = self.bracket_end.get(self.at).copied().flatten() {
                while self.at <= end {
                    self.push_one(&mut text);
                }
            } else {
                self.push_one(&mut text);
            }
            before = Some(c);
        }
        Ok((text, quoted))
    }

    fn push_one(&mut self, text: &mut String) {
        if let Some(c) = self.peek(0) {
            push_folded(c, text);
        }
        self.at += 1;
    }

    /// Takes the text between the quote that stands here and its end.
    fn quotation(&mut self, text: &mut String) -> Result<(), Unclosed> {
        let Some(open) = self.peek(0) else { return Ok(()) };
        let inside = self.chars.get(self.at + 1..).unwrap_or_default();
        let Some(length) = inside.iter().position(|(_, c)| closes(open, *c)) else {
            return Err(Unclosed(self.rest().to_owned()));
        };
        text.extend(inside.iter().take(length).map(|(_, c)| *c));
        self.at += length + 2;
        Ok(())
    }

    /// After a closing quote: a full stop is not part of the name.
    fn skip_end_marks(&mut self) {
        let marks = self.rest().chars().take_while(|c| is_end_mark(*c) && !is_comma(*c)).count();
        if self.peek(marks).is_none_or(|c| is_blank(c) || is_comma(c)) {
            self.at += marks;
        }
    }

    /// A comma inside the address of a page, not one between two addresses.
    fn is_comma_in_page(&self, text: &str) -> bool {
        let next = self.rest().chars().nth(1);
        crate::selection::is_url(text)
            && next.is_some_and(|c| c.is_ascii_alphanumeric())
            && !self.rest().get(1..).is_some_and(crate::selection::is_url)
    }
}

/// Joins a bracket to the word before it, and what stands around a lone `/`.
fn join(words: Vec<Word>) -> Vec<Word> {
    let mut out: Vec<Word> = Vec::with_capacity(words.len());
    let mut slash_open = false;
    for word in words {
        let is_free = |w: &Word| !w.quoted && !w.text.starts_with("--") && !w.text.contains('=');
        let bracket = word.text.starts_with('(') && word.text.ends_with(')');
        let slash = word.text == "/";
        let joins = !word.quoted && !word.after_comma && (bracket || slash || slash_open);
        slash_open = false;
        match out.last_mut().filter(|last| joins && is_free(last)) {
            Some(last) => {
                last.text = format!("{} {}", last.text, word.text);
                last.end = word.end;
                slash_open = slash;
            }
            None => out.push(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        split(line).expect("closed quotes").words.into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn words_are_what_people_mean() {
        let table: [(&str, &[&str]); 19] = [
            ("a b", &["a", "b"]),
            ("a,b, c ,d,", &["a", "b", "c", "d"]),
            ("a，b、c", &["a", "b", "c"]),
            ("'unit tests' \"a, b\"", &["unit tests", "a, b"]),
            ("“unit tests”, „x y“", &["unit tests", "x y"]),
            ("`unit tests`.", &["unit tests"]),
            ("unit tests (ubuntu, 3.11)", &["unit", "tests (ubuntu, 3.11)"]),
            ("test(ubuntu, 3.11) b", &["test(ubuntu, 3.11)", "b"]),
            ("a (x), b (y)", &["a (x)", "b (y)"]),
            ("build / test (ubuntu, 3.12)", &["build / test (ubuntu, 3.12)"]),
            ("a, / b", &["a", "/", "b"]),
            ("(open a", &["(open", "a"]),
            ("lava–x86 —force", &["lava-x86", "--force"]),
            ("\"a – b\"", &["a – b"]),
            ("key=\"v w\" k='x, y'", &["key=v w", "k=x, y"]),
            ("it's don't", &["it's", "don't"]),
            ("https://x.example/a,b c", &["https://x.example/a,b", "c"]),
            ("https://x.example/a,https://y.example", &["https://x.example/a", "https://y.example"]),
            ("lava-{x86,arm64}", &["lava-{x86,arm64}"]),
        ];
        for (line, wanted) in table {
            assert_eq!(texts(line), wanted, "{line}");
        }
    }

    #[test]
    fn a_remark_ends_the_words() {
        let table = [
            ("a -- mirror was down", Some("mirror was down")),
            ("a — mirror", Some("mirror")),
            ("a # mirror", Some("mirror")),
            ("# mirror", Some("mirror")),
            ("a --", None),
            ("a #42", None),
        ];
        for (line, remark) in table {
            assert_eq!(split(line).expect("closed").remark.as_deref(), remark, "{line}");
        }
    }

    #[test]
    fn an_open_quote_is_an_error_that_shows_it() {
        assert_eq!(split("a 'unit tests"), Err(Unclosed("'unit tests".into())));
        assert_eq!(split("k=\"v"), Err(Unclosed("\"v".into())));
    }
}
