//! A server over a database in memory: `cargo run --package keyspan-pg --example memory [PORT]`, then
//! `psql -h 127.0.0.1 -p 5433`. It ends with Ctrl-C and keeps nothing.

use keyspan::Database;
use keyspan_pg::{Server, ServerOptions};

#[tokio::main]
async fn main() -> keyspan::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(5433);
    let server = Server::bind(Database::in_memory()?, ServerOptions::loopback(port)).await?;
    println!("listening on {}", server.local_addr());
    server
        .run(async {
            // Without signals the server runs until it is killed.
            let _ = tokio::signal::ctrl_c().await;
        })
        .await;
    Ok(())
}
