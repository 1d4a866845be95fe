//! The Rust block of the README.

#[tokio::test]
async fn the_program_of_the_readme_greets() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("selvedge-readme-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let address = format!("sqlite:{}", directory.join("work.db").display());
    // region: readme
    use selvedge::{Context, Failure, Submission, Worker};
    use std::time::Duration;

    let connection = selvedge::connect(&address).await?; // sqlite:PATH, postgres://…, memory:, or a server at http://…
    let namespace = connection.namespace("default").await?;

    let worker = Worker::new(namespace.clone(), "greeter")
        .handler("greet", |ctx: Context| async move {
            let name: String = ctx.input()?;
            Ok::<_, Failure>(format!("Hello, {name}!"))
        })
        .start()?;

    let submitted = Submission::new("greet").input("Ada")?.submit(&namespace).await?;
    if let Some(ended) = namespace.result(submitted.execution.id, Duration::from_secs(10)).await? {
        println!("{}", ended.json::<String>()?);
    }
    // endregion: readme
    assert_eq!(namespace.get(submitted.execution.id).await?.outcome, Some(selvedge::Outcome::Completed));
    worker.drain().await;
    connection.close().await;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
