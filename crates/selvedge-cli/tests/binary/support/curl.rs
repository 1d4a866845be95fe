//! Requests, made with plain `curl`.

use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// A request in progress.
pub struct Call(Child);

/// Starts a request.
pub fn start_call(method: &str, url: &str, body: Option<&Value>) -> Call {
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
    /// Gives up on the response.
    pub fn abandon(mut self) {
        self.0.kill().expect("curl runs");
        self.0.wait().expect("curl exits");
    }

    /// Waits for the response. Returns its status and body.
    pub fn response(self) -> (u16, Value) {
        let output = self.0.wait_with_output().expect("curl exits");
        let text = String::from_utf8(output.stdout).expect("responses are text");
        assert!(output.status.success(), "curl: {}: {text}", output.status);
        let (body, status) = text.rsplit_once('\n').expect("curl writes the status last");
        let body = match body {
            "" => Value::Null,
            body => serde_json::from_str(body).expect("responses are JSON"),
        };
        (status.parse().expect("a status is a number"), body)
    }
}

/// Makes a GET request. Returns status and body.
pub fn get(url: &str) -> (u16, Value) {
    start_call("GET", url, None).response()
}

/// Makes a POST request. Returns status and body.
pub fn post(url: &str, body: &Value) -> (u16, Value) {
    start_call("POST", url, Some(body)).response()
}
