//! Selection, order and number of the entries that a list prints: `--selector`, `--sort-by` and
//! `--limit`.

use std::cmp::Ordering;

use clap::Args;
use monoceros_actors::config::closest;
use serde_json::Value;

use super::list::{Columns, Item, lasting, titles};
use super::selector::Selector;
use crate::cli::output::WrongLine;
use crate::cli::path::Path;
use crate::logging::clean;

/// Columns that abbreviate amounts, and the path of the exact amount.
const AMOUNTS: [(&str, &str); 3] =
    [("CORES", ".allocated.vcore"), ("MEMORY", ".allocated.memory"), ("PENDING", ".pending.vcore")];

/// The first queue of a user or group, whose amounts are in the columns.
const FIRST_QUEUE: &str = ".queues[0]";

/// Fields of documents with amounts by resource type. The first orders entries.
const AMOUNTS_BY_TYPE: [&str; 4] = ["allocated", "capacity", "max", "pending"];

/// The column with the reason for which an entry waits.
const WHY: &str = "WHY";

/// Flags that select and order the entries of a list.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct PickArgs {
    /// Only what has these tags (applications) or attributes (nodes): `a=b`, `a!=b`, `a in (b,c)`,
    /// `a notin (b,c)`, `a`, `!a`, separated by commas
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(super) selector: Selector,
    /// Order by a column, such as `memory`, by what is allocated of a resource type, such as
    /// `nvidia.com/gpu`, or by a path into the documents, such as `.rackName`; with a minus before
    /// it, the largest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true, conflicts_with = "watch")]
    pub(super) sort_by: Option<SortBy>,
    /// How many to show: the first, of decisions and events the last
    #[arg(short = 'n', long, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) limit: Option<u32>,
}

/// The order of a list.
#[derive(Clone, Debug)]
pub(super) struct SortBy {
    key: Key,
    /// Whether the largest come first.
    is_descending: bool,
}

#[derive(Clone, Debug)]
enum Key {
    /// A column, as it was written.
    Column(String),
    Path(Path),
}

impl std::str::FromStr for SortBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = text.strip_prefix('-').unwrap_or(text);
        let is_path = key.starts_with(['.', '{', '$', '[']);
        Ok(Self {
            key: if is_path { Key::Path(Path::parse(key)?) } else { Key::Column(key.to_owned()) },
            is_descending: text.starts_with('-'),
        })
    }
}

impl PickArgs {
    /// Orders the entries, and keeps the first.
    pub(super) fn arrange<T: Item>(&self, items: &mut Vec<T>) -> anyhow::Result<()> {
        if let Some(by) = &self.sort_by {
            by.sort(items)?;
        }
        if let Some(limit) = self.limit {
            items.truncate(limit as usize);
        }
        Ok(())
    }

    /// Whether the entries that are shown may be others than the first that are read.
    pub(super) fn changes_order(&self) -> bool {
        self.sort_by.is_some() || !self.selector.is_empty()
    }

    /// Whether the reasons for which entries wait may order them. A path may lead there.
    pub(super) fn may_order_by_why(&self) -> bool {
        self.sort_by.as_ref().is_some_and(|by| match &by.key {
            Key::Column(name) => name.eq_ignore_ascii_case(WHY),
            Key::Path(_) => true,
        })
    }
}

/// The value by which an entry is ordered. Numbers come before texts.
#[derive(Debug)]
enum Rank {
    Number(f64),
    Text(String),
}

impl Rank {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

/// Reads the value by which an entry is ordered. `None` if it has none.
type Ranking<'b, T> = Box<dyn Fn(&T) -> anyhow::Result<Option<Rank>> + 'b>;

impl SortBy {
    /// Sorts the entries. Entries without a value come last, and equal ones keep their order.
    fn sort<T: Item>(&self, items: &mut Vec<T>) -> anyhow::Result<()> {
        let rank = self.ranking(items)?;
        let mut ranked = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            ranked.push((rank(&item)?, item));
        }
        ranked.sort_by(|(a, _), (b, _)| match (a, b) {
            (Some(a), Some(b)) => {
                let order = a.compare(b);
                if self.is_descending { order.reverse() } else { order }
            }
            _ => b.is_some().cmp(&a.is_some()),
        });
        items.extend(ranked.into_iter().map(|(_, item)| item));
        Ok(())
    }

    /// Returns the function that reads the value of an entry. Fails if there is no such column and
    /// no such resource type.
    fn ranking<T: Item>(&self, items: &[T]) -> anyhow::Result<Ranking<'_, T>> {
        let name = match &self.key {
            Key::Path(path) => return Ok(Box::new(|item| Ok(at(path, &item.document()?)))),
            Key::Column(name) => name,
        };
        let columns = Columns { wide: true, others: true, why: T::HAS_WHY };
        let titles = titles::<T>(columns);
        let Some(column) = titles.iter().position(|title| title.eq_ignore_ascii_case(name)) else {
            if is_type(name, items)? {
                let [allocated, ..] = AMOUNTS_BY_TYPE;
                // A missing amount is zero.
                return Ok(Box::new(move |item| {
                    let found = amount(&item.document()?, allocated, name);
                    Ok(Some(Rank::Number(found.unwrap_or(0.0))))
                }));
            }
            let known = match closest(name, titles.iter().copied()) {
                Some(close) => format!("; did you mean `{close}`?"),
                None => format!(": {}; a path begins with a dot", titles.join(", ")),
            };
            return Err(
                WrongLine(format!("--sort-by: `{}` is no column{known}", clean(name))).into()
            );
        };
        if let Some((_, path)) = AMOUNTS.iter().find(|(title, _)| *title == titles[column]) {
            let parsed = |path: &str| Path::parse(path).expect("the path is constant");
            let paths = [parsed(path), parsed(&format!("{FIRST_QUEUE}{path}"))];
            // A missing amount is zero.
            return Ok(Box::new(move |item| {
                let document = item.document()?;
                let found = paths.iter().find_map(|path| at(path, &document));
                Ok(found.or(Some(Rank::Number(0.0))))
            }));
        }
        match titles[column] {
            "AGE" => Ok(Box::new(|item| Ok(item.since_ns().map(|it| Rank::Number(-(it as f64)))))),
            WHY => Ok(Box::new(|item| Ok(of_cell(item.why().unwrap_or_default())))),
            _ => Ok(Box::new(move |item| {
                Ok(lasting(item, columns).get(column).and_then(|cell| of_cell(cell)))
            })),
        }
    }
}

/// Whether this names a resource type: one that an entry has, or a name that no column has.
fn is_type<T: Item>(name: &str, items: &[T]) -> anyhow::Result<bool> {
    if name.contains('/') {
        return Ok(true);
    }
    for item in items {
        let document = item.document()?;
        if AMOUNTS_BY_TYPE.iter().any(|field| amount(&document, field, name).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the amount of a resource type in a field of an entry, or of its first queue.
fn amount(document: &Value, field: &str, name: &str) -> Option<f64> {
    let places = [Some(document), document.pointer("/queues/0")];
    places.into_iter().flatten().find_map(|place| place.get(field)?.get(name)?.as_f64())
}

/// Returns the first value at the path.
fn at(path: &Path, document: &Value) -> Option<Rank> {
    match *path.select(document).first()? {
        Value::Null => None,
        Value::Number(number) => number.as_f64().map(Rank::Number),
        Value::String(text) => Some(Rank::Text(text.clone())),
        other => Some(Rank::Text(other.to_string())),
    }
}

/// Returns the value of a cell: a number, also before a slash and its limit, or a text. Names such
/// as `nan` and `inf` are texts.
fn of_cell(cell: &str) -> Option<Rank> {
    let number = cell.split('/').next().and_then(|it| it.parse::<f64>().ok());
    let number = number.filter(|number| number.is_finite()).map(Rank::Number);
    number.or_else(|| (!cell.is_empty()).then(|| Rank::Text(cell.to_owned())))
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use monoceros_proto::v1;

    use super::*;

    fn node(id: &str, rack: &str, allocations: u32, memory: i64) -> v1::NodeState {
        let memory = ("memory".to_owned(), si::Quantity { value: memory });
        v1::NodeState {
            node_id: id.to_owned(),
            rack_name: rack.to_owned(),
            allocations,
            allocated: Some(si::Resource { resources: [memory].into() }),
            ..Default::default()
        }
    }

    fn sorted(by: &str, limit: Option<u32>) -> Result<String, String> {
        let mut nodes = vec![
            node("n1", "r2", 10, 3 << 30),
            node("n2", "", 9, (3 << 30) - 1),
            node("n3", "r1", 10, 900),
        ];
        let pick = PickArgs { sort_by: Some(by.parse()?), limit, ..PickArgs::default() };
        pick.arrange(&mut nodes).map_err(|error| error.to_string())?;
        Ok(nodes.into_iter().map(|it| it.node_id).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_column_or_a_path_orders() {
        for (by, expected) in [
            ("node", "n1 n2 n3"),
            ("-NODE", "n3 n2 n1"),
            ("allocations", "n2 n1 n3"),
            ("-allocations", "n1 n3 n2"),
            ("memory", "n3 n2 n1"),
            ("cores", "n1 n2 n3"),
            ("rack", "n3 n1 n2"),
            ("-rack", "n1 n3 n2"),
            ("{.allocated.memory}", "n3 n2 n1"),
            (".missing", "n1 n2 n3"),
        ] {
            assert_eq!(sorted(by, None).unwrap(), expected, "{by}");
        }
        assert_eq!(sorted("-memory", Some(2)).unwrap(), "n1 n2");
    }

    #[test]
    fn names_that_parse_as_no_finite_number_are_texts() {
        let names = ["nan", "b", "2", "inf", "NaN", "a", "10", "infinity", "c"];
        let mut nodes: Vec<_> = names.iter().map(|name| node(name, name, 0, 0)).collect();
        let pick = PickArgs { sort_by: Some("rack".parse().unwrap()), ..PickArgs::default() };
        pick.arrange(&mut nodes).unwrap();
        let sorted: Vec<_> = nodes.iter().map(|node| node.node_id.as_str()).collect();
        assert_eq!(sorted, ["2", "10", "NaN", "a", "b", "c", "inf", "infinity", "nan"]);
    }

    #[test]
    fn what_is_allocated_of_a_type_orders() {
        let node = |id: &str, gpus: Option<i64>| {
            let of = |value| ("nvidia.com/gpu".to_owned(), si::Quantity { value });
            let amount = |value| Some(si::Resource { resources: [of(value)].into() });
            v1::NodeState {
                allocated: gpus.and_then(amount),
                capacity: amount(8),
                ..node(id, "", 0, 0)
            }
        };
        let sorted = |by: &str| {
            let mut nodes = vec![node("n1", None), node("n2", Some(4)), node("n3", Some(1))];
            let pick = PickArgs { sort_by: Some(by.parse().unwrap()), ..PickArgs::default() };
            pick.arrange(&mut nodes).unwrap();
            nodes.into_iter().map(|it| it.node_id).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted("nvidia.com/gpu"), "n1 n3 n2");
        assert_eq!(sorted("-nvidia.com/gpu"), "n2 n3 n1");
        assert_eq!(sorted("-example.com/fpga"), "n1 n2 n3");
    }

    #[test]
    fn an_unknown_column_is_refused_with_the_known_ones() {
        let error = sorted("memmory", None).unwrap_err();
        assert_eq!(error, "--sort-by: `memmory` is no column; did you mean `MEMORY`?");
        let error = sorted("gpu", None).unwrap_err();
        assert!(error.starts_with("--sort-by: `gpu` is no column: NODE, STATE,"), "{error}");
        assert!(error.ends_with("HOST, RACK; a path begins with a dot"), "{error}");
        assert!(sorted("why", None).unwrap_err().contains("`why` is no column"));
        assert!(sorted(".a[", None).unwrap_err().contains("`[` is not closed"));
    }
}
