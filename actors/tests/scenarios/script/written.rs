//! Writes steps as text, so that a random history that failed prints a script that can be played
//! again.

use std::fmt;

use monoceros_proto::si::v1::TerminationType;

use super::{Amounts, FAILED, Item, LimitWords, NodeWords, Script, Show, Step, Which, Wish};

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, quantity)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={quantity}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl fmt::Display for LimitWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" limit")?;
        for (word, names) in [("users", &self.users), ("groups", &self.groups)] {
            if !names.is_empty() {
                write!(f, " {word}={}", names.join(","))?;
            }
        }
        if !self.max.0.is_empty() {
            write!(f, " {}", self.max)?;
        }
        if self.max_apps > 0 {
            write!(f, " apps={}", self.max_apps)?;
        }
        Ok(())
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.repeat != 1 {
            write!(f, " x{}", self.repeat)?;
        }
        if !self.amounts.0.is_empty() {
            write!(f, " {}", self.amounts)?;
        }
        if self.priority != 0 {
            write!(f, " prio={}", self.priority)?;
        }
        for (name, value) in [
            ("node", &self.required),
            ("created", &self.created),
            ("placeholder", &self.placeholder),
        ] {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        for (name, value) in [
            ("group", &self.group),
            ("uuid", &self.uuid),
            ("partition", &self.partition),
            ("policy", &self.policy),
        ] {
            if !value.is_empty() {
                write!(f, " {name}={value}")?;
            }
        }
        if self.originator {
            f.write_str(" originator=true")?;
        }
        if self.timeout_ms != 0 {
            write!(f, " timeout={}", self.timeout_ms)?;
        }
        let tags: Vec<_> = self.tags.iter().map(|(name, text)| format!("{name}:{text}")).collect();
        if !tags.is_empty() {
            write!(f, " tags={}", tags.join(","))?;
        }
        if !self.constraint.is_empty() {
            write!(f, " where={}", self.constraint)?;
        }
        if !self.within.is_empty() {
            write!(f, " within={}", self.within)?;
        }
        if !self.near.is_empty() {
            write!(f, " near={}", self.near.join(","))?;
        }
        Ok(())
    }
}

impl fmt::Display for NodeWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(or_dash(&self.id))?;
        if let Some(total) = &self.total {
            write!(f, " {total}")?;
        }
        if let Some(occupied) = &self.occupied {
            write!(f, " occupied {occupied}")?;
        }
        for (name, value) in &self.attributes {
            write!(f, " attr {name}={value}")?;
        }
        if self.drained {
            f.write_str(" drained")?;
        }
        for wish in &self.holds {
            write!(f, " holds {}/{}{wish}", wish.app, wish.key)?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Resize(node) => write!(f, "resize {node}"),
            Self::Drain(node) => write!(f, "drain {node}"),
            Self::Undrain(node) => write!(f, "undrain {node}"),
            Self::RemoveNode(node) => write!(f, "remove {node}"),
            Self::Act { node, action } => write!(f, "act {} {action}", or_dash(node)),
            Self::App {
                id,
                queue,
                user,
                groups,
                tags,
                partition,
                gang,
                style,
                timeout_ms,
                needs,
            } => {
                write!(f, "app {}", or_dash(id))?;
                for (name, value) in
                    [("in", queue), ("user", user), ("groups", groups), ("partition", partition)]
                {
                    if !value.is_empty() {
                        write!(f, " {name} {value}")?;
                    }
                }
                for (name, value) in tags {
                    write!(f, " tag {name}={value}")?;
                }
                if !gang.0.is_empty() {
                    write!(f, " gang {gang}")?;
                }
                if !style.is_empty() {
                    write!(f, " style {style}")?;
                }
                if *timeout_ms != 0 {
                    write!(f, " timeout {timeout_ms}")?;
                }
                for group in needs {
                    write!(f, " needs {}{group}", or_dash(&group.key))?;
                }
                Ok(())
            }
            Self::RemoveApp(app) => write!(f, "remove-app {app}"),
            Self::Ask(wish) => write!(f, "ask {}{wish}", names(wish)),
            Self::Request(wish) => write!(f, "request {}{wish}", names(wish)),
            Self::Exists(wish, node) => {
                write!(f, "exists {}{}{wish}", names(wish), on(node))
            }
            Self::Foreign { key, node, amounts, kind } => {
                write!(f, "foreign {}{} {amounts} kind={kind}", or_dash(key), on(node))
            }
            Self::ForeignGone(key) => write!(f, "foreign-gone {key}"),
            Self::Withdraw { app, key, kind } => {
                write!(f, "withdraw {app} {}", if key.is_empty() { "*" } else { key })?;
                as_kind(f, *kind)
            }
            Self::Release { app, which, kind } => {
                let app = or_dash(app);
                match which {
                    Which::Key(key) => write!(f, "release {app} key={key}")?,
                    Which::Uuid(uuid) => write!(f, "release {app} uuid={uuid}")?,
                    Which::All => write!(f, "release {app} *")?,
                }
                as_kind(f, *kind)
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { policy, weights } => write!(f, "order {policy} {weights}"),
            Self::Queue(queue) => {
                write!(f, "queue {}", queue.path)?;
                for (word, amounts) in [("max", &queue.max), ("guaranteed", &queue.guaranteed)] {
                    if let Some(amounts) = amounts {
                        write!(f, " {word} {amounts}")?;
                    }
                }
                if queue.max_apps > 0 {
                    write!(f, " maxapps={}", queue.max_apps)?;
                }
                for (name, value) in &queue.properties {
                    write!(f, " prop {name}={value}")?;
                }
                for limit in &queue.limits {
                    write!(f, "{limit}")?;
                }
                match &queue.submit {
                    Some(users) => write!(f, " submit {users}"),
                    None => Ok(()),
                }
            }
            Self::Config(text) => write!(f, "config {text}"),
            Self::As(rm) => write!(f, "as {rm}"),
            Self::Register => f.write_str("register"),
            Self::Forget => f.write_str("forget"),
            Self::Reload => f.write_str("reload"),
            Self::State(state) => write!(f, "state {state}"),
            Self::Leave => f.write_str("leave"),
            Self::Send { items, waits } => {
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { " ; " })?;
                }
                f.write_str(if *waits { "" } else { " &" })
            }
            Self::Recover(number) => write!(f, "recover {number}"),
            Self::Confirm { which, kind, waits } => {
                match which {
                    None => f.write_str("confirm *")?,
                    Some(number) => write!(f, "confirm {number}")?,
                }
                if let Some(kind) = kind {
                    write!(f, " as {}", kind_name(*kind))?;
                }
                f.write_str(if *waits { "" } else { " &" })
            }
            Self::ConfirmAgain(number) => write!(f, "confirm-again {number}"),
            Self::Prefer { key, node, by, among_all } => {
                write!(f, "prefer {key} {node} {by}{}", if *among_all { " among-all" } else { "" })
            }
            Self::Refuse { key, node } => write!(f, "refuse {key} {node}"),
            Self::Explode { key, node } => write!(f, "explode {key} {node}"),
            Self::Waver { key, node } => write!(f, "waver {key} {node}"),
            Self::Allow { key, node } => write!(f, "allow {key} {node}"),
            Self::Apart => f.write_str("apart"),
            Self::RefuseSome { percent, seed } => write!(f, "refuse-some {percent} {seed}"),
            Self::Reservations { delay: None, timeout } => {
                write!(f, "reservations never {}ms", timeout.as_millis())
            }
            Self::Reservations { delay: Some(delay), timeout } => {
                write!(f, "reservations {}ms {}ms", delay.as_millis(), timeout.as_millis())
            }
            Self::Wait(time) => write!(f, "wait {}ms", time.as_millis()),
            Self::Settle => f.write_str("settle"),
            Self::Quiet => f.write_str("quiet"),
            Self::Show(Show::Queues) => f.write_str("show queues"),
            Self::Show(Show::Shapes) => f.write_str("show shapes"),
            Self::Show(Show::Apps) => f.write_str("show apps"),
            Self::Show(Show::Nodes) => f.write_str("show nodes"),
            Self::Show(Show::Users) => f.write_str("show users"),
            Self::Show(Show::TaskGroups) => f.write_str("show task-groups"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

fn as_kind(f: &mut fmt::Formatter<'_>, kind: i32) -> fmt::Result {
    if kind == TerminationType::StoppedByRm as i32 {
        return Ok(());
    }
    write!(f, " as {}", kind_name(kind))
}

fn or_dash(id: &str) -> &str {
    if id.is_empty() { "-" } else { id }
}

fn names(wish: &Wish) -> String {
    format!("{} {}", or_dash(&wish.app), or_dash(&wish.key))
}

fn on(node: &str) -> String {
    if node.is_empty() { String::new() } else { format!(" on {node}") }
}

pub(crate) fn kind_name(kind: i32) -> String {
    if kind == FAILED {
        return "FAILED".to_owned();
    }
    TerminationType::try_from(kind)
        .map_or_else(|_| kind.to_string(), |kind| kind.as_str_name().to_owned())
}
