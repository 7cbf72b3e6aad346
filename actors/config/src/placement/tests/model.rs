//! Compares the rules with a second, plain implementation of their definition.

use proptest::prelude::*;

use super::*;

fn names() -> impl Strategy<Value = String> {
    let names = ["a", "b", "B", "a.b", "root", "root.a", "root.b.a", "Root.a", "root.@recovery@"];
    let odd = ["", "x!", "root..a", "root.a.b.a", "@recovery@", "root.default", "default"];
    prop_oneof![4 => prop::sample::select(names.to_vec()), 1 => prop::sample::select(odd.to_vec())]
        .prop_map(str::to_owned)
}

fn rules() -> impl Strategy<Value = RuleConfig> {
    let kind = prop::sample::select(vec!["provided", "user", "fixed", "tag"]);
    let one = (kind, any::<bool>(), names(), 0..4_u8).prop_map(|(kind, create, value, filter)| {
        let value = if kind == "tag" { "ns".to_owned() } else { value };
        let rule = RuleConfig { create, value, ..rule(kind) };
        match filter {
            0 => filtered("", &["a"], &[], rule),
            1 => filtered("deny", &["a"], &["g"], rule),
            _ => rule,
        }
    });
    prop::collection::vec(one, 1..4).prop_map(|chain| {
        let chain = chain.into_iter();
        chain.reduce(below).expect("it has one at least")
    })
}

fn queues() -> impl Strategy<Value = Vec<String>> {
    let some =
        ["root.a/", "root.a.b", "root.b", "root.b/", "root.b.a", "root.default", "root.root/"];
    let more =
        ["root.a! *", "root.a_dot_b", "root.b *", "root.a.b/ b", "root.@recovery@", "root.a a"];
    let any = prop::sample::select([&some[..], &more[..]].concat());
    prop::collection::vec(any, 0..6).prop_flat_map(|queues| {
        let root = prop::sample::select(vec!["root/", "root/ *", "root/ a"]);
        root.prop_map(move |root| {
            let all = queues.iter().map(|queue| (*queue).to_owned());
            all.chain([root.to_owned()]).collect()
        })
    })
}

fn applications() -> impl Strategy<Value = Application> {
    let user = prop::sample::select(vec!["a", "b", "a.b", "x$"]);
    (names(), user, any::<bool>(), any::<bool>(), names()).prop_map(
        |(queue, user, in_group, is_forced, ns)| {
            let groups: &[&str] = if in_group { &["g"] } else { &[] };
            let new = Application { queue, ..of_user(user, groups) };
            let new = with_tag("ns", &ns, new);
            if is_forced { forced(new) } else { new }
        },
    )
}

fn path_of(queue: &str) -> &str {
    queue.split(['/', '!', ' ']).next().unwrap_or_default()
}

/// Builds a tree of those queues that have a parent.
fn tree(queues: &[String]) -> Queues {
    let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
    let mut all = Queues::default();
    // A queue comes after its ancestors.
    for (path, kind) in Queues::new(&queues).0 {
        let above = path.rsplit_once('.').map(|(above, _)| above);
        if above.is_none_or(|above| all.0.get(above).is_some_and(|parent| !parent.is_leaf)) {
            all.0.insert(path, kind);
        }
    }
    all
}

enum Plain {
    Path(String),
    None,
    Error,
}

fn fits(name: &str) -> bool {
    regex::Regex::new("^[a-zA-Z0-9_:#/@-]{1,64}$").unwrap().is_match(name)
}

fn is_whole(path: &str) -> bool {
    path.to_lowercase().starts_with("root.")
}

/// Evaluates one rule: the name it finds, and the path it makes of the name and its parent.
fn plain_rule(rule: &RuleConfig, new: &Application, all: &Queues) -> Plain {
    let text = match &*rule.name {
        "provided" => new.queue.clone(),
        "tag" => new.tags.get("ns").unwrap_or_default().to_owned(),
        "user" => new.user.clone(),
        _ => rule.value.to_lowercase(),
    };
    if text.is_empty() {
        return Plain::None;
    }
    let filter = &rule.filter;
    let lists = |names: &[String], name: &String| names.contains(name);
    let listed =
        lists(&filter.users, &new.user) || new.groups.iter().any(|g| lists(&filter.groups, g));
    if !filter.users.is_empty() && listed == filter.denies {
        return Plain::None;
    }
    let is_path = match &*rule.name {
        "user" => false,
        "fixed" => text == "root" || text.starts_with("root."),
        _ => is_whole(&text),
    };
    let child = if rule.name == "fixed" || is_path { text } else { text.replace('.', "_dot_") };
    if !child.split('.').all(fits) {
        return Plain::Error;
    }
    let path = if is_path {
        child
    } else {
        let parent = match &rule.parent {
            None => "root".to_owned(),
            Some(parent) => match plain_rule(parent, new, all) {
                Plain::Path(path) if is_whole(&path) => path,
                Plain::Path(path) => format!("root.{path}"),
                other => return other,
            },
        };
        if rule.parent.is_some() && all.0.get(&parent.to_lowercase()).is_some_and(|q| q.is_leaf) {
            return Plain::Error;
        }
        format!("{parent}.{child}")
    };
    if rule.create || all.0.contains_key(&path.to_lowercase()) {
        Plain::Path(path)
    } else {
        Plain::None
    }
}

/// Whether the application may use the queue: it is a leaf that accepts applications or can be
/// created, and the user may submit there.
fn plain_usable(path: &str, new: &Application, all: &Queues) -> bool {
    if path == RECOVERY {
        return is_forced(new.tags.iter());
    }
    let mut at = path;
    while !all.0.contains_key(at) {
        at = at.rsplit_once('.').unwrap().0;
    }
    let queue = &all.0[at];
    let is_new = at != path;
    let reserved = is_new && path[at.len()..].split('.').any(|name| name == "@recovery@");
    let may_submit = all.0.iter().any(|(above, kind)| {
        (at == above || at.starts_with(&format!("{above}.")))
            && kind.users.iter().any(|user| *user == new.user || user == "*")
    });
    let takes = queue.is_leaf != is_new && !queue.is_draining && may_submit;
    takes && !(reserved && is_forced(new.tags.iter()))
}

/// Evaluates all rules: the first usable path, else the last resort.
fn plain_place(
    rules: &[RuleConfig],
    new: &Application,
    all: &Queues,
) -> Result<String, &'static str> {
    let is_forced = is_forced(new.tags.iter());
    for rule in rules {
        match plain_rule(rule, new, all) {
            Plain::Error if !is_forced => return Err("E_PLACEMENT_RULE"),
            Plain::Path(path) if plain_usable(&path.to_lowercase(), new, all) => {
                return Ok(path.to_lowercase());
            }
            _ => {}
        }
    }
    if is_forced {
        return Ok(RECOVERY.to_owned());
    }
    if all.0.contains_key(LAST_RESORT) && plain_usable(LAST_RESORT, new, all) {
        return Ok(LAST_RESORT.to_owned());
    }
    Err("E_PLACEMENT_NONE")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn placing_agrees_with_the_text_and_stays_below_root(
        rules in prop::collection::vec(rules(), 1..5),
        queues in queues(),
        new in applications(),
    ) {
        let rules: Vec<_> =
            rules.into_iter().filter(|rule| codes(std::slice::from_ref(rule)).is_empty()).collect();
        prop_assume!(!rules.is_empty());
        let all = tree(&queues);
        let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
        let queues: Vec<&str> = queues.into_iter().filter(|queue| all.0.contains_key(path_of(queue))).collect();
        let placed = place(&rules, &queues, &new);
        let plain = plain_place(&rules, &new, &all).unwrap_or_else(str::to_owned);
        prop_assert_eq!(placed.trim_start_matches('+'), &plain);
        if let Some(path) = placed.strip_prefix('+') {
            prop_assert!(path.starts_with("root.") && monoceros_rules::values::names::is_queue_path(path), "{}", path);
            prop_assert!(!all.0.contains_key(path));
        }
        prop_assert!(!is_forced(new.tags.iter()) || !placed.starts_with("E_"));
    }
}
