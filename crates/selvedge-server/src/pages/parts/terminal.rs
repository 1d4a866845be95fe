//! Text of programs that write for a terminal: the control codes for colours, the cursor and titles are removed.

const ESCAPE: char = '\u{1b}';

/// Removes the control codes (ECMA-48) from a text. `execution.js` does the same with the frames that arrive later.
pub fn without_codes(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, code)) = rest.split_once(ESCAPE) {
        out.push_str(before);
        rest = &code[length(code.as_bytes())..];
    }
    out.push_str(rest);
    out
}

/// Returns the length of a code, without the escape character before it; all its bytes are ASCII.
fn length(code: &[u8]) -> usize {
    let run = |begin: usize, bytes: std::ops::RangeInclusive<u8>| {
        begin + code[begin..].iter().take_while(|byte| bytes.contains(byte)).count()
    };
    match code.first() {
        // Colours and movements: parameters, intermediates, a final byte. A frame may end within one.
        Some(b'[') => {
            let end = run(run(1, b'0'..=b'?'), b' '..=b'/');
            match code.get(end) {
                None => end,
                Some(b'@'..=b'~') => end + 1,
                Some(_) => 1,
            }
        }
        // Titles and links: a text up to a bell or another escape. Without an end, only the begin is removed.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let end = code.iter().position(|byte| matches!(byte, 0x07 | 0x1b));
            match end.map(|end| &code[end..]) {
                Some([0x07, ..]) => end.map_or(1, |end| end + 1),
                Some([0x1b, b'\\', ..]) => end.map_or(1, |end| end + 2),
                Some(_) | None => 1,
            }
        }
        Some(_) => match run(0, b' '..=b'/') {
            end if matches!(code.get(end), Some(b'0'..=b'~')) => end + 1,
            _ => 0,
        },
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::without_codes;

    #[test]
    fn colours_movements_titles_and_links_are_removed() {
        for (text, shown) in [
            ("plain [32m text é", "plain [32m text é"),
            ("\u{1b}[32mINFO\u{1b}[0m ready", "INFO ready"),
            ("\u{1b}[1;38;5;208mwarm\u{1b}[m", "warm"),
            ("50 %\u{1b}[2K\u{1b}[1Gdone", "50 %done"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;https://example.com\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}(Bnormal\u{1b}=", "normal"),
            ("cut \u{1b}[38;5", "cut "),
            ("\u{1b}]0;no end", "0;no end"),
            ("\u{1b}", ""),
            ("\u{1b}é\u{1b}\u{1b}[0mx", "éx"),
        ] {
            assert_eq!(without_codes(text), shown, "{text:?}");
        }
    }
}
