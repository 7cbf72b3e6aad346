//! Queues that the rules choose for applications.

use super::*;

const OPEN: &str = "root/ *";

#[test]
fn an_unknown_queue_is_rejected_with_the_nearest_leaf() {
    let few = &[OPEN, "root.prod/", "root.prod.etl", "root.prod.ad_hoc", "root.dev"];
    let more = ["root.1", "root.2", "root.3"];
    let all = &[&few[..], &more[..]].concat();
    for (named, hint) in [
        ("root.prd.etl", "queue `root.prd.etl` does not exist; did you mean `root.prod.etl`?"),
        ("prod.etl", "queue `root.prod_dot_etl` does not exist"),
        ("devv", "queue `root.devv` does not exist; did you mean `root.dev`?"),
        ("root.prot", "queue `root.prot` does not exist"),
        ("root.dev.x", "queue `root.dev.x` does not exist"),
        (
            "root",
            "queue `root.root` does not exist; `root` holds all queues and runs no applications, \
             name one of its leaves",
        ),
    ] {
        let (user, groups, tags, is_forced) = ("dev", &[][..], None, false);
        let submission = Submission { queue: named, user, groups, tags, is_forced };
        let queues = Queues::new(all);
        let refused = PlacementRules::default().place(&submission, &&queues).unwrap_err();
        let text = format!("no placement rule produced a usable queue: `provided`: {hint}");
        assert_eq!(refused.to_string(), text);
    }
}

#[test]
fn an_unknown_queue_is_rejected_with_the_leaves_that_the_user_may_use_if_they_are_few() {
    let all = [
        "root/",
        "root.@recovery@ dev",
        "root.prod/ dev",
        "root.prod.etl",
        "root.dev dev",
        "root.ops bob",
        "root.old! dev",
    ];
    let refused = |all: &[&str], user: &str| {
        let (groups, tags, is_forced) = (&[][..], None, false);
        let submission = Submission { queue: "root.finance", user, groups, tags, is_forced };
        let queues = Queues::new(all);
        PlacementRules::default().place(&submission, &&queues).unwrap_err().to_string()
    };
    let text = "no placement rule produced a usable queue: `provided`: queue `root.finance` does \
                not exist";
    assert_eq!(
        refused(&all, "dev"),
        format!("{text}; the user may submit to `root.dev` or `root.prod.etl`")
    );
    assert_eq!(refused(&all, "eve"), text);
    let many = ["root.1 *", "root.2 *", "root.3 *", "root.4 *"];
    assert_eq!(refused(&[&all[..], &many[..]].concat(), "dev"), text);
}

#[test]
fn each_rule_yields_a_path_or_no_match() {
    let provided = || rule("provided");
    let (user, all) = (|| rule("user"), &[OPEN, "root.a/", "root.a.b", "root.dev_q"]);
    let parented = below(creating(user()), creating(provided()));
    for (rule, application, expected) in [
        (parented.clone(), application("my_q"), "+root.dev.my_q"),
        (parented, application("root.dev_q"), "root.dev_q"),
        (creating(provided()), application("a.b"), "+root.a_dot_b"),
        (creating(provided()), application("a..b"), "+root.a_dot__dot_b"),
        (creating(provided()), application("root.unkno!wn"), "E_PLACEMENT_RULE"),
        (creating(provided()), application("root..a"), "E_PLACEMENT_RULE"),
        (creating(provided()), application("root."), "E_PLACEMENT_RULE"),
        (creating(provided()), application("root"), "+root.root"),
        (creating(provided()), application("Root.x"), "+root.x"),
        (creating(provided()), application("ROOT.P1"), "+root.p1"),
        (creating(provided()), application("rOOt.a.New"), "+root.a.new"),
        (creating(provided()), application("ROOT."), "E_PLACEMENT_RULE"),
        (creating(provided()), application("ROOT"), "+root.root"),
        (creating(provided()), application("ROOT_.x"), "+root.root__dot_x"),
        (creating(provided()), application("rööt.x"), "E_PLACEMENT_RULE"),
        (creating(provided()), application("root.A.B"), "root.a.b"),
        (provided(), application("root.a.c"), "E_PLACEMENT_NONE"),
        (user(), of_user("finance.test", &[]), "E_PLACEMENT_NONE"),
        (creating(user()), of_user("finance.test", &[]), "+root.finance_dot_test"),
        (creating(user()), of_user("service$", &[]), "E_PLACEMENT_RULE"),
        (creating(user()), of_user(&"x".repeat(65), &[]), "E_PLACEMENT_RULE"),
        (creating(user()), of_user(&"x.".repeat(11), &[]), "E_PLACEMENT_RULE"),
        (creating(fixed("testparent.testchild")), application(""), "+root.testparent.testchild"),
        (creating(fixed("rootless")), application(""), "+root.rootless"),
        (creating(fixed("Root.New")), application(""), "+root.new"),
        (below(fixed("root"), creating(fixed("child"))), application(""), "+root.root.child"),
        (below(fixed("a"), creating(user())), application(""), "+root.a.dev"),
        (below(user(), creating(fixed("x"))), application(""), "E_PLACEMENT_NONE"),
        (below(fixed("dev_q"), creating(user())), application(""), "E_PLACEMENT_RULE"),
        (
            below(below(creating(user()), creating(fixed("mid"))), creating(fixed("low"))),
            application(""),
            "+root.dev.mid.low",
        ),
    ] {
        assert_eq!(place(std::slice::from_ref(&rule), all, &application), expected, "{rule:?}");
    }
}

#[test]
fn paths_have_a_maximum_depth() {
    let all = &[OPEN, "root.@recovery@"];
    let rule = &[creating(rule("provided"))];
    let path = |levels: usize| format!("root{}", ".d".repeat(levels - 1));
    let deepest = application(&path(MOST_LEVELS));
    assert_eq!(place(rule, all, &deepest), format!("+{}", path(MOST_LEVELS)));
    assert_eq!(place(rule, all, &application(&path(MOST_LEVELS + 1))), "E_PLACEMENT_RULE");
    assert_eq!(place(rule, all, &forced(application(&path(20_000)))), "root.@recovery@");
}

#[test]
fn tags_name_queues_as_submissions_do() {
    let all = &[OPEN, "root.a/", "root.a.b", "root.default"];
    let rule = below(creating(rule("user")), creating(tagged("Name.Space")));
    let tagged = |value| with_tag("NAME.space", value, application(""));
    for (application, expected) in [
        (tagged("root.a.b"), "root.a.b"),
        (tagged("team"), "+root.dev.team"),
        (tagged("a.b"), "+root.dev.a_dot_b"),
        (tagged("ROOT.A.b"), "root.a.b"),
        (tagged("Root.new"), "+root.new"),
        (tagged("no way"), "E_PLACEMENT_RULE"),
        (tagged(""), "root.default"),
        (application(""), "root.default"),
    ] {
        assert_eq!(place(std::slice::from_ref(&rule), all, &application), expected);
    }
    // The filter is checked before the tag.
    let rule = filtered("deny", &["dev"], &[], super::tagged("ns"));
    let placement = PlacementRules::build(&[rule]).unwrap();
    let (queues, tags) = (Queues::new(&[OPEN]), Tags::default());
    let (queue, user, groups, tags) = ("", "dev", &[] as &[String], Some(&tags));
    let submission = Submission { queue, user, groups, tags, is_forced: false };
    let refused = placement.place(&submission, &&queues).unwrap_err();
    assert!(
        refused.to_string().ends_with("`tag`: there is no tag `ns` (`tags` of the application)"),
        "{refused}"
    );
}

#[test]
fn a_filter_admits_the_listed_users() {
    let queues = &[OPEN, "root.q"];
    let long = format!("(?i){}", "user1");
    for (kind, users, groups, user, of, passes) in [
        ("deny", &[] as &[&str], &[] as &[&str], "dev", &[] as &[&str], false),
        ("", &[], &[], "dev", &[], true),
        ("allow", &[long.as_str()], &[], "USER1", &[], true),
        ("deny", &[long.as_str()], &[], "USER1", &[], false),
        ("allow", &[], &["dev*"], "x", &["x", "my-de"], true),
        ("allow", &["user1", "user*"], &[], "user1", &[], true),
        ("allow", &["user1", "user*"], &[], "user2", &[], false),
        ("allow", &["a.b"], &[], "axb", &[], false),
        ("allow", &["a.b"], &[], "a.b", &[], true),
        ("allow", &["svc$"], &[], "my-svc", &[], true),
        ("allow", &["User1"], &[], "user1", &[], false),
        ("allow", &["one"], &["two"], "two", &["one"], false),
        ("deny", &["one"], &["two"], "x", &["two"], false),
        ("deny", &["one"], &["two"], "x", &["y"], true),
        ("allow", &["1st", "2nd"], &[], "1st", &[], false),
        ("deny", &["1st", "2nd"], &[], "1st", &[], true),
    ] {
        let rule = filtered(kind, users, groups, fixed("q"));
        let expected = if passes { "root.q" } else { "E_PLACEMENT_NONE" };
        let application = of_user(user, of);
        let placed = place(std::slice::from_ref(&rule), queues, &application);
        assert_eq!(placed, expected, "{rule:?} for {user} in {of:?}");
    }
}

#[test]
fn an_unusable_queue_falls_through_to_the_next_rule() {
    let queues = &[
        "root/",
        "root.open *",
        "root.shut",
        "root.going! *",
        "root.p/ *",
        "root.gone!/ *",
        "root.shut_p/",
    ];
    let next = || fixed("open");
    for first in [
        fixed("p"),
        fixed("shut"),
        fixed("going"),
        creating(fixed("open.below.it")),
        creating(fixed("gone.new")),
        creating(fixed("shut_p.new")),
        creating(fixed("new")),
        rule("provided"),
        creating(fixed("@recovery@")),
        creating(fixed("root.@Recovery@")),
    ] {
        let placed = place(&[first.clone(), next()], queues, &application(""));
        assert_eq!(placed, "root.open", "{first:?}");
        assert_eq!(place(&[first], queues, &application("")), "E_PLACEMENT_NONE");
    }
}

#[test]
fn root_default_is_the_last_resort() {
    let (open, shut) = (&[OPEN, "root.default"], &["root/", "root.default"]);
    let (parent, going) = (&[OPEN, "root.default/"], &[OPEN, "root.default!"]);
    for rules in [&[] as &[RuleConfig], &[fixed("nowhere"), rule("user")]] {
        assert_eq!(place(rules, open, &application("x")), "root.default");
        for queues in [shut as &[&str], parent, going, &[OPEN]] {
            assert_eq!(place(rules, queues, &application("x")), "E_PLACEMENT_NONE");
        }
        assert_eq!(place(rules, open, &forced(application("x"))), "+root.@recovery@");
    }
}

#[test]
fn a_failed_rule_sends_forced_applications_to_recovery() {
    let queues = &["root/ ada", "root.a ada", "root.p/", "root.default"];
    for (rule, application, expected) in [
        (rule("provided"), application("root.a"), "+root.@recovery@"),
        (rule("provided"), Application { user: "ada".into(), ..application("root.a") }, "root.a"),
        (creating(rule("provided")), application("root.a.b"), "+root.@recovery@"),
        (creating(rule("provided")), application("root..b"), "+root.@recovery@"),
        (rule("provided"), application("root.@recovery@"), "+root.@recovery@"),
        (creating(rule("provided")), application("root.@RECOVERY@"), "+root.@recovery@"),
        (below(fixed("a"), creating(rule("user"))), application(""), "+root.@recovery@"),
        (
            creating(rule("provided")),
            Application { user: "ada".into(), ..application("root.p.@recovery@") },
            "+root.@recovery@",
        ),
    ] {
        let placed = place(std::slice::from_ref(&rule), queues, &forced(application));
        assert_eq!(placed, expected, "{rule:?}");
    }
    let there = &["root/", "root.@recovery@"];
    assert_eq!(place(&[], there, &forced(application("x"))), "root.@recovery@");
    assert_eq!(place(&[], there, &application("root.@recovery@")), "E_PLACEMENT_NONE");
}

#[test]
fn force_is_a_boolean_of_go() {
    for (text, expected) in [
        ("1", true),
        ("t", true),
        ("T", true),
        ("TRUE", true),
        ("true", true),
        ("True", true),
        ("0", false),
        ("f", false),
        ("yes", false),
        ("tRUE", false),
        ("", false),
        (" true", false),
    ] {
        let application = with_tag("APPLICATION.create.force", text, application(""));
        assert_eq!(is_forced(application.tags.iter()), expected, "`{text}`");
    }
}

#[test]
fn a_named_parent_is_not_a_leaf_without_rules() {
    let queues = &[OPEN, "root.p/"];
    assert_eq!(place(&[], queues, &application("root.p")), "not a leaf: root.p");
    assert_eq!(place(&[rule("provided")], queues, &application("root.p")), "E_PLACEMENT_NONE");
}

#[test]
fn creation_needs_submit_access_to_the_parent() {
    let queues = Queues::new(&[
        "root/",
        "root.leaf *",
        "root.p/ *",
        "root.p.a",
        "root.going!/ *",
        "root.shut/",
    ]);
    let made = |path: &str| creation(path, "dev", &[], &&queues).map_err(|error| error.cause());
    assert_eq!(made("root.p.b.c"), Ok(vec!["root.p.b".to_owned(), "root.p.b.c".to_owned()]));
    assert_eq!(made("root.p.a"), Ok(Vec::new()));
    for (path, cause) in [
        ("root", "E_QUEUE_PATH"),
        ("rootless.a", "E_QUEUE_PATH"),
        ("a.b", "E_QUEUE_PATH"),
        ("root.shut.a", "E_CREATE_ACL"),
        ("root.leaf.a.b", "E_CREATE_UNDER_LEAF"),
        ("root.going.a", "E_ADD_CHILD_DRAINING"),
        ("root.p.@recovery@", "E_RECOVERY_NAME"),
        ("root.p.@recovery@.x", "E_RECOVERY_NAME"),
        ("root.p.a$", "E_QUEUE_NAME"),
        ("root.p..a", "E_QUEUE_NAME"),
    ] {
        assert_eq!(made(path), Err(cause), "{path}");
    }
}

#[test]
fn a_rejection_lists_the_obstacle_of_each_rule() {
    let rules = [rule("provided"), creating(rule("user")), fixed("p")];
    let placement = PlacementRules::build(&rules).unwrap();
    let queues = Queues::new(&["root/", "root.p/ *", "root.q bob"]);
    let (queue, user, groups) = ("root.q", "dev", &[] as &[String]);
    let submission = Submission { queue, user, groups, tags: None, is_forced: false };
    let refused = placement.place(&submission, &&queues).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no placement rule produced a usable queue: `provided`: user `dev` may not submit to queue \
         `root.q`; `user`: user `dev` may not create queues below `root` (wanted `root.dev`); \
         `fixed`: queue `root.p` cannot run applications, it is not a leaf"
    );
}
