//! Field cases G06 and G07: what is slow holds up nobody else, and nobody for ever.

use std::time::{Duration, Instant};

use super::House;
use crate::mount::page::Limits;

#[test]
fn a_slow_question_holds_up_nobody() {
    let Some(house) = House::open() else { return };
    house.read("search/known");
    house.fake.hold(true);
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..20)
            .map(|it| {
                let path = house.path(&format!("search/slow {it}"));
                scope.spawn(move || std::fs::read_to_string(path))
            })
            .collect();
        let folder = scope.spawn(|| std::fs::read_dir(house.path("links/slow")).map(|_| ()));
        // More questions hang than there are threads for them.
        wait_for("the crew is busy", || house.fake.asked() > Limits::default().askers);
        let start = Instant::now();
        house.says("ls -la . search note/memory && stat search/known && cat search/known README.md status.md");
        assert!(std::fs::metadata(house.path("note/memory/a.md/links")).is_ok());
        let nobody_is_served = slow.iter().all(|it| !it.is_finished());
        assert!(nobody_is_served || start.elapsed() < Duration::from_secs(2), "it waited for them");
        house.fake.hold(false);
        assert!(slow.into_iter().all(|it| it.join().unwrap().is_ok()));
        folder.join().unwrap().unwrap();
    });
}

#[test]
fn a_question_that_hangs_ends_at_its_deadline_and_its_readers_can_be_killed() {
    let limits = Limits { request: Duration::from_millis(400), ..Limits::default() };
    let Some(house) = House::open_within(limits) else { return };
    house.fake.hold(true);
    assert_eq!(house.errno("search/slow"), libc::ETIMEDOUT);
    // Killed readers are gone by the deadline at the latest.
    let start = Instant::now();
    house.says(
        "for i in $(seq 20); do cat \"search/slow $i\" & done; kill -9 $(jobs -p); wait; true",
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    // The folder can be left while all of them hang.
    let mounted = house.mounted.as_ref().unwrap();
    assert!(mounted.is_serving());
    house.fake.hold(false);
    wait_for("the answer is there", || std::fs::read(house.path("search/slow")).is_ok());
}

/// G07, the other half: many walkers and readers while notes change.
#[test]
fn many_at_once_while_the_index_moves_wedge_nothing() {
    let Some(house) = House::open() else { return };
    std::thread::scope(|scope| {
        let walkers = scope.spawn(|| {
            house.says(
                "for i in $(seq 50); do (for j in 1 2 3; do find . > /dev/null; cat \"search/q$i\" \
                 > /dev/null; ls -l search links/q > /dev/null; done) & done; wait; true",
            )
        });
        while !walkers.is_finished() {
            house.fake.say("moving");
            std::thread::sleep(Duration::from_millis(5));
        }
        walkers.join().unwrap();
    });
    assert!(house.read("search/q").contains("moving"));
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::yield_now();
    }
}
