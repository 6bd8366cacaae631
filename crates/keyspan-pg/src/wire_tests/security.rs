//! Who may connect: passwords that are wrong, missing, expired; bytes of strangers; rules of access.

use keyspan_model::RoleDef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::NoTls;

use super::client::{Running, frame, query, start_with, startup_packet};
use crate::{Access, AccessRules, ServerOptions};

/// The verifier of `pencil`, with the salt of RFC 7677's example.
const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                      wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

async fn start(rules: &str, change: impl Fn(&mut RoleDef)) -> Running {
    let access = Access::new(AccessRules::parse(rules).expect("rules"));
    let running = start_with(ServerOptions { access, max_connections: 8, ..ServerOptions::default() }).await;
    let mut catalog = running.database.catalog();
    let id = catalog.rights.add_role("ann");
    let role = catalog.rights.roles.get_mut(&id).expect("ann");
    (role.login, role.password) = (true, Some(PENCIL.to_owned()));
    change(role);
    *running.database.catalog.lock() = catalog;
    running
}

const PASSWORDS: &str = "host all all all scram-sha-256";

async fn connect(running: &Running, user: &str, password: &str) -> Result<tokio_postgres::Client, (String, String)> {
    let config = format!("host=127.0.0.1 port={} user={user} password={password}", running.address.port());
    match tokio_postgres::connect(&config, NoTls).await {
        Ok((client, connection)) => {
            tokio::spawn(connection);
            Ok(client)
        }
        Err(error) => {
            let error = error.as_db_error().expect("the server's own error");
            Err((error.code().code().to_owned(), error.message().to_owned()))
        }
    }
}

#[tokio::test]
async fn the_right_password_opens_and_every_other_is_refused_alike() {
    let running = start(PASSWORDS, |_| {}).await;
    connect(&running, "ann", "pencil").await.expect("the right password").simple_query("rows 1").await.expect("rows");
    for (user, password) in [("ann", "pen"), ("ann", "PENCIL"), ("eve", "pencil"), ("mallory", "pencil")] {
        let (state, message) = connect(&running, user, password).await.expect_err("refused");
        assert_eq!(state, "28P01");
        assert_eq!(message, format!("password authentication failed for user \"{user}\""));
    }
}

#[tokio::test]
async fn sockets_that_say_nothing_keep_nobody_out() {
    let running = start(PASSWORDS, |_| {}).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(running.address).await.expect("a socket"));
    }
    connect(&running, "ann", "pencil").await.expect("a place").simple_query("rows 1").await.expect("rows");
    // The oldest of them was closed.
    assert_eq!(silent[0].read(&mut [0]).await.expect("its end"), 0);
}

#[tokio::test]
async fn a_role_that_may_not_log_in_is_asked_as_any_other() {
    let changes: [fn(&mut RoleDef); 3] =
        [|role| role.login = false, |role| role.password = None, |role| role.valid_until = Some(0)];
    for change in changes {
        let running = start(PASSWORDS, change).await;
        let (state, _) = connect(&running, "ann", "pencil").await.expect_err("refused");
        assert_eq!(state, "28P01");
    }
}

#[tokio::test]
async fn rules_trust_and_reject() {
    let running = start("host all ann 127.0.0.0/8 trust", |_| {}).await;
    connect(&running, "ann", "anything").await.expect("trusted");
    let (state, message) = connect(&running, "bob", "pencil").await.expect_err("no rule");
    assert_eq!((state.as_str(), message.contains("no rule of access")), ("28000", true), "{message}");
}

#[tokio::test]
async fn a_role_has_its_number_of_connections_and_superusers_some_of_their_own() {
    let running = start(PASSWORDS, |role| role.connection_limit = Some(2)).await;
    let _held = [connect(&running, "ann", "pencil").await, connect(&running, "ann", "pencil").await];
    let (state, message) = connect(&running, "ann", "pencil").await.expect_err("the third");
    assert_eq!((state.as_str(), message.as_str()), ("53300", "too many connections for role \"ann\""));

    let running = start(PASSWORDS, |_| {}).await;
    let mut held = Vec::new();
    let (state, message) = loop {
        match connect(&running, "ann", "pencil").await {
            Ok(client) => held.push(client),
            Err(error) => break error,
        }
    };
    assert_eq!((held.len(), state.as_str()), (5, "53300"), "{message}");
    for role in running.database.catalog.lock().rights.roles.values_mut() {
        role.superuser = true;
    }
    connect(&running, "ann", "pencil").await.expect("kept for superusers");
}

/// What the server answers to these bytes after a startup packet of ann's, up to the end of the connection.
async fn answer_to(running: &Running, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(running.address).await.expect("connects");
    socket.write_all(&[startup_packet(0, &[("user", "ann")]), bytes.to_vec()].concat()).await.expect("sent");
    let mut answer = Vec::new();
    // A reset is an end, too: what was not read is thrown away.
    let _ = socket.read_to_end(&mut answer).await;
    answer
}

fn initial(mechanism: &str, first: &[u8]) -> Vec<u8> {
    let length = u32::try_from(first.len()).expect("short").to_be_bytes();
    frame('p', &[mechanism.as_bytes(), b"\0", &length, first].concat())
}

#[tokio::test]
async fn nothing_but_the_exchange_is_answered_to_strangers() {
    let running = start(PASSWORDS, |_| {}).await;
    let plain = "SCRAM-SHA-256";
    let first = initial(plain, b"n,,n=,r=abc");
    let long = [b"n,,n=,r=".to_vec(), vec![b'a'; 9_000]].concat();
    let attempts: Vec<(Vec<u8>, &str)> = vec![
        (query("rows 1"), "expected SASL response"),
        (frame('p', b"pencil\0"), "malformed SASL response"),
        (initial("SCRAM-SHA-1", b"n,,n=,r=abc"), "invalid SASL authentication mechanism"),
        (initial("SCRAM-SHA-256-PLUS", b"n,,n=,r=abc"), "invalid SASL authentication mechanism"),
        (initial("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc"), "invalid SASL authentication mechanism"),
        (initial(plain, b"p=tls-server-end-point,,n=,r=abc"), "invalid SASL authentication mechanism"),
        (initial(plain, b"\xff\xfe"), "malformed SCRAM message"),
        (initial(plain, &long), "longer than the limit"),
        ([first.clone(), query("rows 1")].concat(), "expected SASL response"),
        ([first.clone(), frame('p', b"c=biws,r=other,p=AAAA")].concat(), "malformed SCRAM message"),
        ([first, frame('p', b"")].concat(), "malformed SCRAM message"),
    ];
    for (bytes, part) in attempts {
        let answer = answer_to(&running, &bytes).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains(part), "{part}: {text:?}");
        // Not once AuthenticationOk, and nothing that follows it.
        assert!(!answer.windows(9).any(|window| window == [b'R', 0, 0, 0, 8, 0, 0, 0, 0]), "{text:?}");
        assert!(!text.contains("server_version"), "{text:?}");
    }
}

/// The last message of an exchange that was seen before is worth nothing in another.
#[tokio::test]
async fn a_replayed_proof_is_refused() {
    let running = start(PASSWORDS, |_| {}).await;
    let mut socket = TcpStream::connect(running.address).await.expect("connects");
    let first = initial("SCRAM-SHA-256", b"n,,n=,r=rOprNGfwEbeRWgbNEkqO");
    socket.write_all(&[startup_packet(0, &[("user", "ann")]), first].concat()).await.expect("sent");
    // The proof of RFC 7677's example, which is right for that server's nonce.
    let proof =
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    socket.write_all(&frame('p', proof)).await.expect("sent");
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    assert!(String::from_utf8_lossy(&answer).contains("malformed SCRAM message"), "{answer:?}");
}

/// The first bytes of TLS and a cancel request are answered, or not, as without roles.
#[tokio::test]
async fn a_server_without_a_certificate_refuses_tls() {
    let running = start(PASSWORDS, |_| {}).await;
    let mut socket = TcpStream::connect(running.address).await.expect("connects");
    socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.expect("sent");
    let mut answer = [0];
    socket.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(answer, [b'N']);
    let mut direct = TcpStream::connect(running.address).await.expect("connects");
    direct.write_all(&[0x16, 3, 1, 0, 0x80, 1, 0, 0]).await.expect("sent");
    let mut answer = Vec::new();
    let _ = direct.read_to_end(&mut answer).await;
    assert!(String::from_utf8_lossy(&answer).contains("invalid length of startup packet"));
}

/// What is no verifier cannot be logged in with: it is not taken for a password.
#[tokio::test]
async fn a_damaged_verifier_opens_nothing() {
    let running = start(PASSWORDS, |role| role.password = Some("pencil".into())).await;
    let (state, _) = connect(&running, "ann", "pencil").await.expect_err("refused");
    assert_eq!(state, "28P01");
}
