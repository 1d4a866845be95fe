//! Calls, made with plain `curl`.

use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// A call under way.
pub struct Call(Child);

/// Begins a call.
pub fn calling(method: &str, url: &str, body: Option<&Value>) -> Call {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "90"])
        .args(["--write-out", "\n%{http_code}", "--request", method, url])
        .stdout(Stdio::piped());
    if let Some(body) = body {
        curl.args(["--data-binary", &body.to_string()]);
    }
    Call(curl.spawn().expect("curl starts"))
}

impl Call {
    /// Its answer: status and body.
    pub fn answer(self) -> (u16, Value) {
        let output = self.0.wait_with_output().expect("curl ends");
        let text = String::from_utf8(output.stdout).expect("answers are text");
        assert!(output.status.success(), "curl: {}: {text}", output.status);
        let (body, status) = text.rsplit_once('\n').expect("curl writes the status last");
        let body = match body {
            "" => Value::Null,
            body => serde_json::from_str(body).expect("answers are JSON"),
        };
        (status.parse().expect("a status is a number"), body)
    }
}

/// Makes a call that reads.
pub fn get(url: &str) -> (u16, Value) {
    calling("GET", url, None).answer()
}

/// Makes a call that does something.
pub fn post(url: &str, body: &Value) -> (u16, Value) {
    calling("POST", url, Some(body)).answer()
}
