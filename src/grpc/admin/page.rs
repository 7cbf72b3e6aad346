//! Long lists in pages.
//!
//! A page begins behind the last id of the page before and not at a number, so an entry that comes
//! or goes between two pages moves no other one: none is shown twice, and none is skipped.

use super::refusal::CallRefusal;

/// Entries of a page unless the client says otherwise.
const USUAL: u32 = 1_000;

/// The most entries of a page: with details a node or an application may be some kilobytes.
const MOST: u32 = 10_000;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    size: usize,
    /// The last id of the page before; empty: begin.
    behind: String,
}

impl Page {
    pub(super) fn asked(size: u32, token: String) -> Result<Self, CallRefusal> {
        if size > MOST {
            let reason = format!("{size} is more than {MOST}");
            return Err(CallRefusal::field("page_size", reason));
        }
        let size = if size == 0 { USUAL } else { size };
        Ok(Self { size: size as usize, behind: token })
    }

    /// The entries of this page, and the token of the next one, which is empty where there is none.
    /// `entries` are sorted by `id`.
    pub(super) fn cut<T>(
        &self,
        entries: impl Iterator<Item = T>,
        id: impl Fn(&T) -> &str,
    ) -> (Vec<T>, String) {
        let mut page = Vec::new();
        let mut last = String::new();
        for entry in entries.filter(|entry| id(entry) > self.behind.as_str()) {
            if page.len() == self.size {
                return (page, last);
            }
            id(&entry).clone_into(&mut last);
            page.push(entry);
        }
        (page, String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(size: u32, entries: &[&str]) -> Vec<Vec<String>> {
        let (mut pages, mut token) = (Vec::new(), String::new());
        loop {
            let page = Page::asked(size, token).unwrap();
            let (entries, next) = page.cut(entries.iter(), |id| id);
            pages.push(entries.into_iter().map(|&id| id.to_owned()).collect());
            token = next;
            if token.is_empty() {
                return pages;
            }
        }
    }

    #[test]
    fn pages_together_are_the_list() {
        assert_eq!(pages(2, &["a", "b", "c"]), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(pages(3, &["a", "b", "c"]), [["a", "b", "c"]]);
        assert_eq!(pages(0, &["a"]), [["a"]]);
        assert_eq!(pages(1, &[]), [Vec::<String>::new()]);
    }

    #[test]
    fn what_went_between_two_pages_moves_no_other_entry() {
        let second = Page::asked(1, "b".to_owned()).unwrap();
        let (page, next) = second.cut(["a", "c", "d"].iter(), |id| id);
        assert_eq!((page, next.as_str()), (vec![&"c"], "c"));
    }

    #[test]
    fn a_page_has_a_most() {
        assert!(Page::asked(MOST, String::new()).is_ok());
        let refusal = Page::asked(MOST + 1, String::new()).unwrap_err();
        assert_eq!(refusal.to_string(), "`page_size`: 10001 is more than 10000");
    }
}
