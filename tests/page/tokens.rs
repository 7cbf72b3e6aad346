//! With access rules, the page asks for a token and does not store it.

use crate::browser::Chromium;
use crate::harness::{Service, TempFile};

#[tokio::test]
async fn the_page_asks_for_tokens_and_stores_none() {
    let Some(chromium) = Chromium::start().await else { return };
    let tokens = TempFile::new("page-tokens", "dash:t-dash\nshim:t-shim\n");
    let settings = format!(
        "[identity]\ntokens = '{}'\n[[identity.rules]]\ntoken = 'dash'\nread = true\n\
         [[identity.rules]]\ntoken = 'shim'\nrm_ids = ['shim']\n",
        tokens.path()
    );
    let settings = TempFile::new("page.toml", &settings);
    let service = Service::start_configured(settings.path());
    let tab = chromium.tab().await;
    let page = format!("http://{}", service.http);
    tab.open(&format!("{page}/ui/sessions")).await;
    tab.until_text("#who", "Reading needs a token here").await;
    tab.until("document.activeElement.id === 'token'").await;
    let give = async |token: &str| {
        tab.until("document.activeElement.id === 'token'").await;
        tab.write(token).await;
        tab.press("Enter").await;
    };
    give("t-nobody").await;
    tab.until_text("#who", "This token is not known here").await;
    give("t-dash").await;
    tab.until_text("#sessions", "No resource manager has registered").await;
    tab.until_text("#state", "live").await;
    let stored: i64 =
        tab.value("localStorage.length + sessionStorage.length + document.cookie.length").await;
    assert_eq!(stored, 0);
    assert!(!tab.value::<bool>("document.documentElement.outerHTML.includes('t-dash')").await);
    // A caller with access to one resource manager sees a message elsewhere.
    tab.value::<bool>(
        "([...document.querySelectorAll('button')].find(it => it.innerText === 'Other token').click(), true)",
    )
    .await;
    give("t-shim").await;
    tab.until_text("#sessions", "may not read this").await;
    tab.click("header nav a").await;
    tab.until_text("#empty", "No resource manager has registered").await;
    // Opening the page again forgets the token.
    tab.open(&page).await;
    tab.until_text("#who", "Reading needs a token here").await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}
