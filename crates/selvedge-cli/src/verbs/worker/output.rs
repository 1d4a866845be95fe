//! The output of a command: standard output becomes the result, standard error becomes frames.

use selvedge::{Context, FrameKind};
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// The largest result, as the API limits it.
const RESULT_BYTES: usize = 1024 * 1024;
/// The largest frame; the API allows four times as much.
const FRAME_BYTES: usize = 64 * 1024;
/// The time for which lines are collected into one frame.
const COLLECT: Duration = Duration::from_millis(100);
/// The length of the end of standard error in a failure message, in bytes.
const TAIL: usize = 2000;

/// Reads standard output to its end. Returns it as JSON, or why it cannot be a result. Keeps no more than a result may have.
pub async fn read_result(stdout: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, String> {
    let (mut kept, mut length) = (Vec::new(), 0_usize);
    if let Some(mut stdout) = stdout {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = stdout.read(&mut buffer).await.unwrap_or(0);
            if read == 0 {
                break;
            }
            length += read;
            let room = RESULT_BYTES.saturating_sub(kept.len());
            kept.extend_from_slice(&buffer[..read.min(room)]);
        }
    }
    if length > RESULT_BYTES {
        return Err(format!("the command printed {length} bytes; a result has at most {RESULT_BYTES}"));
    }
    Ok(as_json(&kept))
}

/// Returns output as JSON: itself if it is, null if it is empty, else a string without the line break at its end.
fn as_json(output: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(output);
    if text.trim().is_empty() {
        return b"null".to_vec();
    }
    match serde_json::from_str::<&RawValue>(text.trim()) {
        Ok(raw) => raw.get().as_bytes().to_vec(),
        Err(_) => {
            let text = text.strip_suffix('\n').unwrap_or(&text);
            Value::from(text.strip_suffix('\r').unwrap_or(text)).to_string().into_bytes()
        }
    }
}

/// Forwards standard error as frames, and keeps its end for a failure message.
pub struct StderrFrames<'a> {
    ctx: &'a Context,
    tail: String,
}

impl<'a> StderrFrames<'a> {
    /// Returns the frames of an attempt.
    pub fn new(ctx: &'a Context) -> Self {
        StderrFrames { ctx, tail: String::new() }
    }

    /// Returns the end of what was read.
    pub fn tail(&self) -> &str {
        &self.tail
    }

    /// Reads to the end. Lines that come together become one frame.
    pub async fn forward(&mut self, stderr: Option<impl AsyncRead + Unpin>) {
        let Some(mut stderr) = stderr else { return };
        let (mut pending, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
        loop {
            let read = match pending.is_empty() {
                true => Some(stderr.read(&mut buffer).await.unwrap_or(0)),
                false => timeout(COLLECT, stderr.read(&mut buffer)).await.ok().map(|read| read.unwrap_or(0)),
            };
            match read {
                Some(0) => {
                    self.append(&pending).await;
                    return;
                }
                Some(read) => pending.extend_from_slice(&buffer[..read]),
                None => {}
            }
            if read.is_none() || pending.len() >= FRAME_BYTES {
                // Whole lines, so that no character is cut.
                let end = pending.iter().rposition(|byte| *byte == b'\n').map_or(pending.len(), |at| at + 1);
                let frame: Vec<u8> = pending.drain(..end).collect();
                self.append(&frame).await;
            }
        }
    }

    async fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        self.tail.push_str(&text);
        if self.tail.len() > TAIL {
            let cut = self.tail.len() - TAIL;
            let cut = (cut..self.tail.len()).find(|at| self.tail.is_char_boundary(*at)).unwrap_or(0);
            self.tail.drain(..cut);
        }
        if let Err(error) = self.ctx.emit(FrameKind::Stderr, text.as_ref()).await {
            tracing::warn!(execution = %self.ctx.execution(), %error, "a frame was not stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_becomes_json() {
        for (output, expected) in [
            ("", "null"),
            ("\n", "null"),
            ("{\"b\": 1, \"a\": 2}\n", "{\"b\": 1, \"a\": 2}"),
            ("7", "7"),
            ("two words\n", "\"two words\""),
            ("1\n2\n", "\"1\\n2\""),
        ] {
            let result = read_result(Some(output.as_bytes())).await.expect("it is small");
            assert_eq!(String::from_utf8_lossy(&result), expected);
        }
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_refused_with_its_size() {
        let output = vec![b'x'; 5_000_000];
        let refused = read_result(Some(output.as_slice())).await.expect_err("it is too large");
        assert!(refused.contains("5000000 bytes"), "{refused}");
    }
}
