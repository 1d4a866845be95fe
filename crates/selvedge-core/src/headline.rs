//! The headline of an error: the one line of its message that names the exception. Lists, tables and sentences show it, and leave the
//! trace to the page of the execution.
//!
//! Python prints the exception below the frames, and the last exception of a chain last. Rust prints the message of a panic in its
//! second line, Node the place of an uncaught error in its first. All others begin with the exception.

use crate::text::{cut, shortened};

/// The line before the frames of Python.
const TRACEBACK: &str = "Traceback (most recent call last):";
const GROUP_TRACEBACK: &str = "Exception Group Traceback (most recent call last):";
/// The words before the exception that ends a Java program.
const JAVA_THREAD: &str = "Exception in thread \"";

/// Returns the line of an error message that names the exception, without white space around it. Empty if the message is blank.
pub fn headline(message: &str) -> &str {
    python(message).or_else(|| node(message)).or_else(|| panic(message)).unwrap_or_else(|| first(message))
}

/// Returns an error message with at most `limit` bytes. The end of a long trace is cut; its headline is kept.
pub fn shortened_error(message: &str, limit: usize) -> String {
    let line = cut(headline(message), limit / 2);
    let kept = shortened(message.to_owned(), limit);
    if headline(&kept).starts_with(line) {
        return kept;
    }
    let with_line =
        format!("{line}\n{}", shortened(message.to_owned(), limit.saturating_sub(line.len() + 1)));
    if headline(&with_line) == line { with_line } else { line.to_owned() }
}

/// Returns the first line that is not blank, without the name of a Java thread.
fn first(message: &str) -> &str {
    let line = lines(message).next().unwrap_or_default();
    let exception = line.strip_prefix(JAVA_THREAD).and_then(|rest| rest.split_once("\" "));
    exception.map_or(line, |(_, exception)| exception)
}

fn lines(message: &str) -> impl Iterator<Item = &str> {
    message.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Returns the exception line of the last traceback that has one. A trace that was cut has none: then a line before it counts, or
/// else its last line.
fn python(message: &str) -> Option<&str> {
    let all: Vec<&str> = message.lines().collect();
    let headers: Vec<usize> = (0..all.len()).filter(|at| is_traceback(all[*at])).collect();
    let begin = *headers.first()?;
    let found = headers.iter().rev().find_map(|at| exception_below(&all, *at));
    let before = || all[..begin].iter().map(|line| line.trim()).find(|line| !line.is_empty());
    found.or_else(before).or_else(|| lines(message).last())
}

/// Reports whether a line begins a traceback. Those of the members of an exception group stand behind a bar, and do not count.
fn is_traceback(line: &str) -> bool {
    let line = line.trim();
    line == TRACEBACK || line.strip_prefix("+ ") == Some(GROUP_TRACEBACK)
}

/// Returns the first line below the beginning of a traceback that is not indented more than it: frames are.
fn exception_below<'a>(lines: &[&'a str], header: usize) -> Option<&'a str> {
    let indent = lines[header].len() - lines[header].trim_start().len();
    let is_group = lines[header].contains(GROUP_TRACEBACK);
    let inner = lines[header + 1..].iter().map_while(|line| match is_group {
        true => line.trim_start().strip_prefix('|').map(|rest| rest.strip_prefix(' ').unwrap_or(rest)),
        false => line.get(indent.min(line.len())..),
    });
    inner
        .take_while(|line| !is_traceback(line))
        .find(|line| !line.starts_with([' ', '\t']) && !line.trim().is_empty())
        .map(str::trim)
}

/// Returns the error below the source line that Node shows for an uncaught one: a place, the line, and a mark under it.
fn node(message: &str) -> Option<&str> {
    let (_, number) = lines(message).next()?.rsplit_once(':')?;
    number.parse::<u32>().ok()?;
    let mut rest = message.lines().skip_while(|line| !is_mark(line));
    rest.next()?;
    rest.map(str::trim).find(|line| !line.is_empty())
}

fn is_mark(line: &str) -> bool {
    line.contains('^') && line.chars().all(|one| one == '^' || one.is_whitespace())
}

/// Returns the message of a panic of Rust, which stands below the place.
fn panic(message: &str) -> Option<&str> {
    let mut lines = lines(message);
    let place = lines.next()?;
    let is_panic = place.starts_with("thread '") && place.contains(" panicked at ") && place.ends_with(':');
    lines.next().filter(|_| is_panic)
}

#[cfg(test)]
mod tests {
    use super::{headline, shortened, shortened_error};

    const PYTHON: &str = r#"Traceback (most recent call last):
  File "/srv/app/worker.py", line 41, in charge
    return gateway.charge(order["order_id"])
                          ~~~~~^^^^^^^^^^^^
KeyError: 'order_id'
"#;

    const PYTHON_CHAINED: &str = r#"Traceback (most recent call last):
  File "/srv/app/store.py", line 8, in find
    return self.rows[key]
           ~~~~~~~~~^^^^^
KeyError: 'ada'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/app/worker.py", line 12, in run
    find("ada")
  File "/srv/app/store.py", line 10, in find
    raise LookupError(f"no customer {key}") from error
LookupError: no customer ada

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/app/worker.py", line 14, in run
    connection.rollback()
  [Previous line repeated 2 more times]
app.errors.CardError: Your card was declined
"#;

    const PYTHON_MULTI_LINE: &str = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    check(order)\n\
        pydantic_core.ValidationError: 2 validation errors for Order\nid\n  Field required [type=missing]\n\namount\n  Input should be positive\n";

    const PYTHON_GROUP: &str = r#"  + Exception Group Traceback (most recent call last):
  |   File "/srv/app/worker.py", line 3, in run
  |     async with asyncio.TaskGroup() as group:
  |                ~~~~~~~~~~~~~~~~~^^
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/app/worker.py", line 7, in load
    |     raise ValueError("bad row")
    | ValueError: bad row
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/srv/app/worker.py", line 9, in store
    |     raise OSError(28, "No space left on device")
    | OSError: [Errno 28] No space left on device
    +------------------------------------
"#;

    const PYTHON_REMOTE: &str = r#"multiprocessing.pool.RemoteTraceback:
"""
Traceback (most recent call last):
  File "/usr/lib/python3.13/multiprocessing/pool.py", line 125, in worker
    result = (True, func(*args, **kwds))
ZeroDivisionError: division by zero
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/app/worker.py", line 5, in <module>
    pool.map(divide, rows)
ZeroDivisionError: division by zero
"#;

    const JAVASCRIPT_CAUSE: &str = "Error: the order could not be saved\n    at save (file:///app/orders.js:14:11)\n    \
        at process.processTicksAndRejections (node:internal/process/task_queues:105:5) {\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:5432\n      \
        at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1637:16) {\n    errno: -111,\n    code: 'ECONNREFUSED'\n  }\n}";

    const NODE_UNCAUGHT: &str = "/app/worker.js:3\n    throw new TypeError(\"order.lines is not iterable\");\n    ^\n\n\
        TypeError: order.lines is not iterable\n    at main (/app/worker.js:3:11)\n\nNode.js v22.4.0\n";

    const RUST_PANIC: &str = "\nthread 'tokio-runtime-worker' (4711) panicked at src/resize.rs:20:9:\n\
        index out of bounds: the len is 3 but the index is 99\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";

    const JAVA: &str = "Exception in thread \"main\" java.lang.IllegalStateException: Order 4711 is closed\n\
        \tat com.example.Orders.ship(Orders.java:31)\n\tat com.example.Main.main(Main.java:9)\n\
        Caused by: java.sql.SQLException: connection reset\n\tat com.example.Db.query(Db.java:12)\n\t... 2 more\n";

    #[test]
    fn the_headline_of_a_trace_is_its_exception_line() {
        for (trace, expected) in [
            (PYTHON, "KeyError: 'order_id'"),
            (PYTHON_CHAINED, "app.errors.CardError: Your card was declined"),
            (PYTHON_MULTI_LINE, "pydantic_core.ValidationError: 2 validation errors for Order"),
            (PYTHON_GROUP, "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)"),
            (PYTHON_REMOTE, "ZeroDivisionError: division by zero"),
            (JAVASCRIPT_CAUSE, "Error: the order could not be saved"),
            (NODE_UNCAUGHT, "TypeError: order.lines is not iterable"),
            (RUST_PANIC, "index out of bounds: the len is 3 but the index is 99"),
            (JAVA, "java.lang.IllegalStateException: Order 4711 is closed"),
            (
                "thread 'main' panicked at 'no such file', src/main.rs:2:5\nnote: …",
                "thread 'main' panicked at 'no such file', src/main.rs:2:5",
            ),
            (
                "Error: reading the order\n\nCaused by:\n    No such file (os error 2)\n",
                "Error: reading the order",
            ),
            (
                "panic: runtime error: index out of range [5]\n\ngoroutine 1 [running]:\nmain.main()",
                "panic: runtime error: index out of range [5]",
            ),
        ] {
            assert_eq!(headline(trace), expected, "{trace}");
        }
    }

    #[test]
    fn a_trace_behind_other_text_is_still_found() {
        assert_eq!(
            headline(&format!("the command ended with exit code 1:\n{PYTHON}")),
            "KeyError: 'order_id'"
        );
        let indented: String = PYTHON.lines().map(|line| format!("    {line}\n")).collect();
        assert_eq!(headline(&indented), "KeyError: 'order_id'");
        let windows = PYTHON_CHAINED.replace('\n', "\r\n");
        assert_eq!(headline(&windows), "app.errors.CardError: Your card was declined");
    }

    #[test]
    fn a_plain_message_is_its_first_line() {
        for (message, expected) in [
            ("", ""),
            (" \n\t\n", ""),
            ("out of paper", "out of paper"),
            ("\n  out of paper\ncall the caretaker\n", "out of paper"),
            ("10.0.0.1:5432: connection refused", "10.0.0.1:5432: connection refused"),
            ("cannot connect to 10.0.0.1:5432", "cannot connect to 10.0.0.1:5432"),
            (
                "the Traceback (most recent call last): is missing",
                "the Traceback (most recent call last): is missing",
            ),
        ] {
            assert_eq!(headline(message), expected);
        }
    }

    #[test]
    fn a_trace_without_an_exception_line_shows_the_last_line_that_came() {
        let cut = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    check(ord";
        assert_eq!(headline(cut), "check(ord");
        assert_eq!(headline(&format!("KeyError: 'a'\n{cut}")), "KeyError: 'a'");
        assert_eq!(headline(&format!("{PYTHON}\nDuring handling of it:\n\n{cut}")), "KeyError: 'order_id'");
        assert_eq!(headline("Traceback (most recent call last):"), "Traceback (most recent call last):");
    }

    #[test]
    fn a_long_trace_that_is_shortened_keeps_its_headline() {
        let frames = "  File \"/srv/app/worker.py\", line 1, in step\n    step()\n".repeat(100);
        let deep = PYTHON.replacen('\n', &format!("\n{frames}"), 1);
        let chained = format!(
            "{PYTHON}\nDuring handling of the above exception, another exception occurred:\n\n{deep}"
        )
        .replace("KeyError: 'order_id'\n", "KeyError: 'first'\n")
            + "LookupError: last\n";
        for trace in [
            deep.clone(),
            format!("{deep}note\n"),
            chained,
            format!("Error: x\n{}", "    at f (a.js:1:1)\n".repeat(200)),
        ] {
            let kept = shortened_error(&trace, 1024);
            assert!(kept.len() <= 1024, "{kept}");
            assert_eq!(headline(&kept), headline(&trace));
        }
        assert_eq!(shortened_error(PYTHON, 1024), PYTHON);
        assert_eq!(shortened_error(&"x".repeat(1000), 100), shortened("x".repeat(1000), 100));
    }

    #[test]
    fn no_text_is_cut_inside_a_character() {
        for text in [
            "Traceback (most recent call last):\n  é\né: ü",
            "é:1\n^\né",
            "\u{2003}Traceback (most recent call last):\né\n\u{2003}é",
        ] {
            assert!(!headline(text).is_empty(), "{text}");
        }
    }
}
