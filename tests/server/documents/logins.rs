//! The recipe for failed logins in docs/choosing.md keeps the promises of its text.

use std::thread;

use testkit::{Client, Reply, Server};

use crate::documents::{read, transcripts};

const LIMIT: usize = 5;

/// The calls of the recipe.
struct Recipe {
    /// Sent before the password is checked; a denial means that it is not checked.
    before: String,
    /// Sent when the password was right.
    right: String,
    /// Unlocks the account.
    unlock: String,
}

fn recipe() -> Recipe {
    const DOCUMENT: &str = "docs/choosing.md";
    let mut calls: Vec<String> = transcripts(DOCUMENT).into_iter().map(|step| step.call).collect();
    calls.retain(|call| call.contains("login:alice"));
    let [before, right] = calls.try_into().expect("two calls");
    let document = read(DOCUMENT);
    let mut spans = document.split('`');
    let unlock = spans.find(|span| span.contains("login:alice") && !span.contains('\n'));
    Recipe { before, right, unlock: unlock.expect("a call that unlocks").into() }
}

fn ask(client: &mut Client, recipe: &Recipe) -> Reply {
    Reply::of(&client.run(recipe.before.as_str()))
}

/// Asks from many clients at once, before any of them has checked its password.
fn ask_at_once(server: &Server, recipe: &Recipe, clients: usize) -> usize {
    thread::scope(|scope| {
        let guesses: Vec<_> =
            (0..clients).map(|_| scope.spawn(|| ask(&mut server.client(), recipe))).collect();
        let replies = guesses.into_iter().map(|guess| guess.join().expect("a reply"));
        replies.filter(Reply::is_grant).count()
    })
}

fn assert_locked(reply: Reply) {
    assert_eq!(reply.granted, 0);
    assert!((890_000..=900_000).contains(&reply.retry_after), "a quarter of an hour: {reply:?}");
}

#[test]
fn of_guesses_at_once_as_many_as_the_limit_reach_the_check() {
    let server = Server::start();
    let recipe = recipe();
    assert_eq!(ask_at_once(&server, &recipe, 50), LIMIT);
    assert_locked(ask(&mut server.client(), &recipe));
}

#[test]
fn only_failures_count_and_the_one_after_the_last_locks() {
    let server = Server::start();
    let mut client = server.client();
    let recipe = recipe();
    for failures in 0..LIMIT {
        for _ in 0..2 * LIMIT {
            let reply = ask(&mut client, &recipe);
            assert!(reply.is_grant(), "right after {failures} failures: {reply:?}");
            assert_eq!(client.int(recipe.right.as_str()), 1);
        }
        let reply = ask(&mut client, &recipe);
        assert!(reply.is_grant(), "wrong after {failures} failures: {reply:?}");
    }
    assert_locked(ask(&mut client, &recipe));
    client.run(recipe.unlock.as_str());
    assert!(ask(&mut client, &recipe).is_grant(), "`{}` does not unlock", recipe.unlock);
}

#[test]
fn more_right_ones_at_once_than_the_limit_lock_too() {
    let server = Server::start();
    let mut client = server.client();
    let recipe = recipe();
    assert_eq!(ask_at_once(&server, &recipe, LIMIT + 1), LIMIT);
    for _ in 0..LIMIT {
        client.run(recipe.right.as_str());
    }
    assert_locked(ask(&mut client, &recipe));
}
