//! The SQL of the pages runs: each page's "```sql" blocks one after another, on a database of the page's own.
//!
//! The statements of a block marked `sql,fails` must fail; each ends with `; -- ` and its SQLSTATE. A block marked
//! `sql,fragment` shows a part of a statement, or one that needs more than a database, and is not run.

use keyspan::{Database, Session};

use super::page::{Block, Page, pages};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sql_of_the_pages_runs() {
    let mut failures = Vec::new();
    for page in pages() {
        run_page(&page, &mut failures).await;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn run_page(page: &Page, failures: &mut Vec<String>) {
    let blocks = page.blocks();
    let blocks: Vec<&Block<'_>> = blocks.iter().filter(|block| block.language == "sql").collect();
    if blocks.is_empty() {
        return;
    }
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    for block in blocks {
        let told = match block.mark {
            "" => run_block(&mut session, &block.text).await,
            "fails" => fail_block(&mut session, &block.text).await,
            "fragment" => Ok(()),
            other => Err(format!("the mark {other} is not known")),
        };
        if let Err(error) = told {
            failures.push(format!("{}:{}: {error}", page.path.display(), block.line));
        }
    }
    database.close().unwrap();
}

async fn run_block(session: &mut Session, text: &str) -> Result<(), String> {
    let statements = session.parse(text).map_err(|error| format!("{error} in\n{text}"))?;
    for statement in statements {
        run(session, &statement.text)
            .await
            .map_err(|error| format!("{} {error}: {}", error.sqlstate(), statement.text))?;
    }
    Ok(())
}

async fn fail_block(session: &mut Session, text: &str) -> Result<(), String> {
    let mut statement = String::new();
    for line in text.lines() {
        let Some((end, comment)) = line.split_once("; -- ") else {
            statement.push_str(line);
            statement.push('\n');
            continue;
        };
        statement.push_str(end);
        match run(session, &statement).await {
            Ok(()) => return Err(format!("does not fail: {statement}")),
            Err(error) if comment.starts_with(error.sqlstate()) => statement.clear(),
            Err(error) => return Err(format!("fails with {} {error}, not {comment}: {statement}", error.sqlstate())),
        }
    }
    if statement.trim().is_empty() { Ok(()) } else { Err(format!("has no SQLSTATE: {statement}")) }
}

async fn run(session: &mut Session, sql: &str) -> keyspan::Result<()> {
    for outcome in session.execute(sql).await? {
        outcome.read_all().await?;
    }
    Ok(())
}
