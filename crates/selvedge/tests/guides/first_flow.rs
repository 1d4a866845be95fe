//! The program of the guide to the first flow runs, embedded and against a server.

use selvedge::Engine;
use std::future::pending;
use std::process::Command;
use tokio::net::TcpListener;

/// Runs the example, which cargo builds along with the tests, and returns its output.
async fn output(address: String) -> String {
    let test = std::env::current_exe().expect("the path of the test program is known");
    let directory = test.parent().and_then(|deps| deps.parent()).expect("the directory of the build");
    let mut command = Command::new(directory.join("examples/first_flow"));
    let run = tokio::task::spawn_blocking(move || command.arg(address).output());
    let output = run.await.expect("the thread ends").expect("the example starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_first_flow_publishes_two_pictures() {
    let expected = "[\"bytes of cat.jpg at 200\", \"bytes of cat.jpg at 800\"]\n";
    assert_eq!(output("memory:".into()).await, expected);
    let engine = Engine::open("memory:").await.expect("the engine starts");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    let serving = tokio::spawn(selvedge_server::serve(engine.clone().into_inner(), listener, pending()));
    assert_eq!(output(format!("http://{address}")).await, expected, "over HTTP");
    serving.abort();
    engine.shutdown().await;
}
