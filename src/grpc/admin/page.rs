//! Pages of long lists.
//!
//! A page starts after the last id of the previous page, not at an offset. So an entry added or
//! removed between two pages moves no other one: none is listed twice or skipped.

use monoceros_actors::Page;

use super::refusal::CallRefusal;

/// The default number of entries per page.
const USUAL: u32 = 1_000;

/// Most entries per page: with details a node or an application may take some kilobytes.
const MOST: u32 = 10_000;

/// The page that a client requests.
pub(super) fn asked(size: u32, token: String) -> Result<Page, CallRefusal> {
    if size > MOST {
        let reason = format!("{size} is more than {MOST}");
        return Err(CallRefusal::field("page_size", reason));
    }
    let size = if size == 0 { USUAL } else { size };
    Ok(Page {
        after: (!token.is_empty()).then_some(token),
        limit: Some(size as usize),
        ..Page::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_has_default_and_maximum() {
        let size = |size| asked(size, String::new()).map(|page| page.limit.unwrap());
        assert_eq!((size(0), size(7)), (Ok(1_000), Ok(7)));
        assert_eq!(size(MOST), Ok(10_000));
        assert_eq!(
            size(MOST + 1).unwrap_err().to_string(),
            "`page_size`: 10001 is more than 10000"
        );
    }

    #[test]
    fn empty_token_means_first_page() {
        assert_eq!(asked(1, String::new()).unwrap().after, None);
        assert_eq!(asked(1, "b".to_owned()).unwrap().after.as_deref(), Some("b"));
    }
}
