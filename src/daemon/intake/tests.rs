//! The door by itself: what merges, what counts, what is withdrawn.

use super::*;

#[test]
fn what_nobody_waits_for_any_more_is_not_begun() {
    let intake = Intake::default();
    let hour = Duration::from_secs(3600);
    assert_eq!(intake.accept(hour, &|| true), Claimed::Withdrawn);
    assert_eq!(intake.accept(Duration::ZERO, &|| false), Claimed::Withdrawn);
    let Wake::Asked(_, asks) = intake.wait(Duration::ZERO, hour, clock::now() + hour) else {
        unreachable!("two asks are there")
    };
    assert_eq!(asks.len(), 2);
    assert!(!asks.iter().any(Ask::begin), "both are withdrawn");
    let committer = {
        let intake = intake.clone();
        std::thread::spawn(move || match intake.wait(Duration::ZERO, hour, clock::now() + hour) {
            Wake::Asked(_, asks) => asks.iter().all(Ask::begin),
            _ => false,
        })
    };
    assert_eq!(intake.accept(hour, &|| false), Claimed::Begun, "and then it met a fault");
    assert!(committer.join().unwrap());
}

/// While whoever looks has other work one question waits for it, and no other one does.
#[test]
fn a_look_that_does_not_come_is_waited_for_once() {
    let intake = Intake::default();
    let hint = || {
        let paths = VaultPath::new("a.md").into_iter().collect();
        intake.hint(Hints { paths, ..Hints::default() }, Settle::at(clock::now()));
    };
    let hour = Duration::from_secs(3600);
    assert!(intake.wait_looked(hour), "nothing happened");
    hint();
    assert!(!intake.wait_looked(Duration::from_millis(1)));
    let seen = intake.noticed();
    hint();
    assert!(!intake.wait_looked(hour), "at once");
    intake.looked(seen);
    assert!(!intake.wait_looked(Duration::from_millis(1)), "that look did not see the second");
    intake.looked(intake.noticed());
    assert!(intake.wait_looked(hour));
    hint();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| intake.wait_looked(hour));
        intake.looked(intake.noticed());
        assert!(waits.join().unwrap());
    });
}

/// A commit of many files takes long: meanwhile nobody may hear that all is committed.
#[test]
fn what_is_being_committed_still_waits() {
    let intake = Intake::default();
    let now = clock::now();
    let hints = |names: &[&str]| Hints {
        paths: names.iter().filter_map(|it| VaultPath::new(it).ok()).collect(),
        ..Hints::default()
    };
    intake.hint(hints(&["a.md", "b.md"]), Settle::at(now));
    let far = now + Duration::from_secs(60);
    let wake = intake.wait(Duration::ZERO, Duration::ZERO, far);
    assert!(matches!(&wake, Wake::Settled(it, _) if it.paths.len() == 2), "{wake:?}");
    assert_eq!(intake.pending(), 2);
    intake.hint(hints(&["c.md"]), Settle::at(now));
    assert_eq!(intake.pending(), 3);
    intake.put_back(hints(&["b.md"]));
    intake.done();
    assert_eq!(intake.pending(), 2);
}

#[test]
fn a_path_counts_once_and_what_a_commit_has_does_not() {
    let intake = Intake::default();
    let paths = |names: &[&str]| -> BTreeSet<VaultPath> {
        names.iter().map(|it| VaultPath::new(it).unwrap()).collect()
    };
    let hints = |names: &[&str]| Hints { paths: paths(names), ..Hints::default() };
    let edits = |intake: &Intake| intake.first_edits(&BTreeSet::new(), 9);
    intake.put_back(Hints::everything());
    assert_eq!(intake.pending(), 1, "nobody knows what there is");
    intake.put_back(hints(&["a.md", "b.md"]));
    intake.hint(hints(&["a.md", "c.md"]), Settle::at(clock::now()));
    assert_eq!(edits(&intake), paths(&["a.md", "b.md", "c.md"]));
    assert_eq!(intake.pending(), 3);
    let named = paths(&["b.md", "x.md"]);
    assert_eq!(intake.edits_beside(&named), 2);
    assert_eq!(intake.first_edits(&named, 1), paths(&["a.md"]));
    let taken = intake.take_owed();
    assert_eq!(intake.pending(), 3, "what is looked at still counts");
    intake.put_back_looked(taken, paths(&["b.md", "d.md"]));
    intake.done();
    let noticed = &["a.md", "c.md"][..];
    assert_eq!(edits(&intake), paths(&["a.md", "b.md", "c.md", "d.md"]), "{noticed:?} are new");
    let wake = intake.wait(Duration::ZERO, Duration::ZERO, clock::now());
    let Wake::Settled(noticed, _) = wake else { unreachable!("{wake:?}") };
    intake.put_back_looked(noticed, paths(&["c.md"]));
    intake.done();
    assert_eq!(edits(&intake), paths(&["b.md", "c.md", "d.md"]), "a.md is as in HEAD");
    intake.put_back_looked(Hints::everything(), BTreeSet::new());
    assert_eq!((intake.pending(), intake.owes()), (0, true));
}

#[test]
fn the_newest_edits_come_first_however_many_there_are() {
    let intake = Intake::default();
    let path = |it: String| VaultPath::new(&it).unwrap();
    let hints = |paths: BTreeSet<VaultPath>| Hints { paths, ..Hints::default() };
    let old: BTreeSet<_> = (0..3000).map(|it| path(format!("old/{it:04}.md"))).collect();
    intake.put_back_looked(Hints::everything(), old);
    let burst = (0..50).map(|it| path(format!("burst/{it:02}.md"))).collect();
    intake.hint(hints(burst), Settle::at(clock::now()));
    intake.hint(hints([path("zz/typed.md".into())].into()), Settle::at(clock::now()));
    let named: BTreeSet<_> = [path("burst/49.md".into())].into();
    let newest = intake.newest_edits(&named, 52);
    assert_eq!(newest.len(), 52);
    assert_eq!(newest[0], (2, path("zz/typed.md".into())));
    let burst: BTreeSet<_> = (0..49).map(|it| (1, path(format!("burst/{it:02}.md")))).collect();
    assert_eq!(newest[1..50].iter().cloned().collect::<BTreeSet<_>>(), burst);
    assert_eq!(newest[50..], [0, 1].map(|it| (0, path(format!("old/{it:04}.md")))));
    // What is committed is no edit any more.
    let taken = intake.take_owed();
    intake.put_back_looked(taken, BTreeSet::new());
    let wake = intake.wait(Duration::ZERO, Duration::ZERO, clock::now());
    assert!(matches!(wake, Wake::Settled(..)), "{wake:?}");
    intake.done();
    assert_eq!(intake.newest_edits(&BTreeSet::new(), 9), []);
}

/// D09: whoever is cut off in a burst may be in the middle of a save.
#[test]
fn a_burst_that_does_not_pause_is_no_quiet() {
    let path = VaultPath::new("a.md").unwrap();
    let hints = Hints { paths: [path].into(), ..Hints::default() };
    let now = clock::now();
    let far = now + Duration::from_secs(60);
    let check = |burst: Settle, quiet: u64, max_wait: u64, expected: Moment| {
        let intake = Intake::default();
        intake.hint(hints.clone(), burst);
        let seconds = Duration::from_secs;
        let wake = intake.wait(seconds(quiet), seconds(max_wait), far);
        assert!(matches!(wake, Wake::Settled(_, it) if it == expected), "{wake:?}");
    };
    check(Settle::at(now), 0, 30, Moment::Quiet);
    check(Settle::at(now), 30, 0, Moment::Restless);
    check(Settle::at(now).end_early(), 30, 60, Moment::Quiet);
}

/// A hook of Git's does not end the quiet window of what is being typed.
#[test]
fn what_git_moved_is_looked_at_at_once_and_alone() {
    let intake = Intake::default();
    let path = VaultPath::new("a.md").unwrap();
    let hints = Hints { paths: [path].into(), ..Hints::default() };
    let now = clock::now();
    let (hour, far) = (Duration::from_secs(3600), now + Duration::from_secs(7200));
    intake.hint(hints, Settle::at(now));
    intake.hint_git();
    let git = Hints { git: true, ..Hints::default() };
    for _ in 0..2 {
        let wake = intake.wait(hour, hour, far);
        assert!(matches!(&wake, Wake::Settled(it, Moment::Restless) if *it == git), "{wake:?}");
        intake.done();
        assert_eq!(intake.pending(), 1);
        // The second time a little later.
        intake.hint_git();
        intake.hint_git();
    }
    intake.set_paused(true);
    let wake = intake.wait(hour, hour, clock::now());
    assert!(matches!(wake, Wake::Due), "{wake:?}");
}
