//! A browser under the control of a test: chromedriver with a headless Chromium, and what its logs say.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thirtyfour::prelude::*;
use thirtyfour::{ChromeCapabilities, LoggingPrefsLogLevel};

/// The longest time that a test waits for a page to change; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Starts Chromium without a window, and without requests of its own.
const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
];

/// The colours that a person prefers.
#[derive(Clone, Copy, PartialEq)]
pub enum Colours {
    Light,
    Dark,
}

/// A process that is ended with the test. Chromium ends with its driver.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running browser.
pub struct Browser {
    pub driver: WebDriver,
    _process: Process,
    /// The address of the server, to which all requests must go.
    server: String,
}

impl Browser {
    /// Starts a browser for the pages of `server`, an address such as `http://127.0.0.1:7878`.
    pub async fn start(server: &str, colours: Colours) -> Browser {
        let process = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn();
        let mut process = Process(
            process.expect("chromedriver is installed: scripts/install-packages chromium chromium-driver"),
        );
        let stdout = BufReader::new(process.0.stdout.take().expect("its output is captured"));
        let mut lines = stdout.lines().map(|line| line.expect("its output is text"));
        let port = lines.find_map(|line| {
            line.split("successfully on port ")
                .nth(1)
                .map(|rest| rest.trim_end_matches('.').trim().to_owned())
        });
        let port = port.filter(|port| port.parse::<u16>().is_ok()).expect("chromedriver names its port");
        let mut capabilities = ChromeCapabilities::new();
        for flag in FLAGS {
            capabilities.add_arg(flag).expect("a flag is text");
        }
        if colours == Colours::Dark {
            capabilities.add_arg("--blink-settings=preferredColorScheme=0").expect("a flag is text");
        }
        for log in ["browser", "performance"] {
            capabilities.set_logging_prefs(log, LoggingPrefsLogLevel::All).expect("the preference is set");
        }
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), capabilities).await;
        let driver = driver.unwrap_or_else(|error| panic!("the browser starts: {error}"));
        Browser { driver, _process: process, server: server.to_owned() }
    }

    /// Opens a page of the server.
    pub async fn open(&self, path: &str) {
        self.driver.goto(format!("{}{path}", self.server)).await.expect("the page opens");
    }

    /// Runs a script that returns a value.
    pub async fn eval(&self, script: &str) -> Value {
        let result = self.driver.execute(script, Vec::new()).await;
        result.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    /// Waits until a script returns true.
    pub async fn wait_for(&self, script: &str) {
        let begin = Instant::now();
        while self.eval(&format!("return Boolean({script})")).await != Value::Bool(true) {
            assert!(begin.elapsed() < TIMEOUT, "{script} stays false: {}", self.text().await);
            tokio::task::yield_now().await;
        }
    }

    /// Returns the text of the page as a person reads it.
    pub async fn text(&self) -> String {
        self.eval("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Clicks the element with this selector.
    pub async fn click(&self, selector: &str) {
        let element = self.driver.find(By::Css(selector)).await;
        let element = element.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Saves a picture of the page in `target/screenshots`, as wide as given and as high as the page, up to a limit.
    pub async fn screenshot(&self, name: &str, width: u32) {
        self.resize(width, 900).await;
        let height = self.eval("return document.documentElement.scrollHeight").await.as_u64().unwrap_or(900);
        self.resize(width, height.clamp(600, 3000) as u32).await;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
        std::fs::create_dir_all(&folder).expect("the folder is created");
        self.driver.screenshot(&folder.join(format!("{name}.png"))).await.expect("the picture is saved");
    }

    /// Sets the size of the window.
    pub async fn resize(&self, width: u32, height: u32) {
        self.driver.set_window_rect(0, 0, width, height).await.expect("the window is resized");
    }

    /// Reports whether the page is wider than the window.
    pub async fn overflows(&self) -> bool {
        self.eval("return document.documentElement.scrollWidth > document.documentElement.clientWidth").await
            == Value::Bool(true)
    }

    /// Asserts that no page broke its policy or had an error, and that no request went to another place. Ends the browser.
    pub async fn finish(self) {
        for entry in self.driver.browser_log().await.expect("the browser has a log") {
            assert!(
                entry.level != "SEVERE" && !entry.message.contains("Content Security Policy"),
                "{entry:?}"
            );
        }
        let mut requests = 0;
        for entry in self.driver.get_log("performance").await.expect("the browser has a log of requests") {
            let entry: Value = serde_json::from_str(&entry.message).expect("an entry is JSON");
            let message = &entry["message"];
            if message["method"] == "Network.requestWillBeSent" {
                let url = message["params"]["request"]["url"].as_str().unwrap_or_default();
                let is_own = url.starts_with(&format!("{}/", self.server)) || url.starts_with("data:");
                assert!(is_own, "the page requests {url}");
                requests += 1;
            }
        }
        assert!(requests > 0, "the log of requests is empty");
        self.driver.quit().await.expect("the browser ends");
    }
}
