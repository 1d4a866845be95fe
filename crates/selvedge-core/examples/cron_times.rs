//! Prints the next times of cron expressions, for `scripts/check-cron`. A line of the input has an expression, the name of a
//! time zone, a time in seconds and a count, separated by tabs; its line of the output has the times in seconds, or the reason
//! why the expression is refused.

use selvedge_core::Timestamp;
use selvedge_core::schedule::times::{Times, Timing};
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split('\t').collect();
        let [expression, time_zone, after, count] = fields[..] else {
            return Err(io::Error::other(format!("{line:?} does not have four fields")));
        };
        let timing = Timing::Cron { expression: expression.into(), time_zone: time_zone.into() };
        let after = Timestamp::from_millis(after.parse::<i64>().map_err(io::Error::other)? * 1000);
        let count: usize = count.parse().map_err(io::Error::other)?;
        match Times::new(&timing, after) {
            Err(wrong) => writeln!(out, "refused: {wrong:?}")?,
            Ok(times) => {
                let next = std::iter::successors(times.next_after(after), |at| times.next_after(*at));
                let next: Vec<String> = next.take(count).map(|at| (at.millis() / 1000).to_string()).collect();
                writeln!(out, "{}", next.join(" "))?;
            }
        }
    }
    out.flush()
}
