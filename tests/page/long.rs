//! A list with more applications than fit on a page.

use crate::browser::Chromium;
use crate::harness::{Rm, Service, application};

#[tokio::test]
async fn a_long_list_is_paged_and_searched_whole() {
    let Some(chromium) = Chromium::start().await else { return };
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await.with_nodes(&["n1"]).await;
    let all = (0..1_150).map(|number| application(&format!("job-{number:04}"), "root.a"));
    rm.send_applications(all.collect(), vec![]).await;
    rm.until("all", |seen| seen.accepted_applications.len() == 1_150).await;
    let tab = chromium.tab().await;
    tab.open(&format!("http://{}/ui/applications", service.http)).await;
    let first = "document.querySelector('main tbody a')?.innerText";
    let rows = "document.querySelectorAll('main tbody tr').length";
    tab.until(&format!("{first} === 'job-0000' && {rows} === 100")).await;
    tab.until_text("#count", "1000 applications, a part of the list").await;
    tab.until_text(".pager", "1–100 of 1000").await;
    tab.click(".pager button:last-child").await;
    tab.until(&format!("{first} === 'job-0100' && location.search.includes('page=2')")).await;
    tab.value::<bool>("(document.querySelector('.further a').click(), true)").await;
    tab.until(&format!("{first} === 'job-1000' && location.search.includes('after=job-0999')"))
        .await;
    tab.until_text("#count", "150 applications").await;
    tab.click(".pager button:last-child").await;
    tab.until(&format!("{first} === 'job-1100' && {rows} === 50")).await;
    // The search finds rows beyond the first page.
    tab.press("/").await;
    tab.until("document.activeElement.name === 'search'").await;
    tab.write("b-114").await;
    tab.until(&format!("{first} === 'job-1140' && {rows} === 10")).await;
    tab.until_text("#count", "10 applications").await;
    let descending = "(document.querySelector('th button').click(), true)";
    tab.value::<bool>(descending).await;
    tab.until(&format!("{first} === 'job-1149'")).await;
    assert_eq!(tab.wrong(), [""; 0]);
    chromium.end().await;
}

#[tokio::test]
async fn ended_applications_are_newest_first_and_searchable() {
    let Some(chromium) = Chromium::start().await else { return };
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    for part in 0..2 {
        let numbers = part * 575..(part + 1) * 575;
        let all = numbers.map(|number| application(&format!("job-{number:04}"), "root.nowhere"));
        rm.send_applications(all.collect(), vec![]).await;
        rm.until("all", |seen| seen.rejected_applications.len() == (part + 1) * 575).await;
    }
    let tab = chromium.tab().await;
    let page = format!("http://{}/ui", service.http);
    tab.open(&format!("{page}/applications?list=rejected")).await;
    let first = "document.querySelector('main tbody a')?.innerText";
    tab.until(&format!("{first} === 'job-1149'")).await;
    tab.until_text("#count", "1000 applications, a part of the list").await;
    tab.open(&format!("{page}/applications?list=rejected&search=job-0007")).await;
    tab.until(&format!("{first} === 'job-0007'")).await;
    tab.until_text("#count", "1 application").await;
    tab.open(&format!("{page}/application?id=job-0007")).await;
    tab.until_text("#summary", "root.nowhere").await;
    // A missing item is reported, and nothing else failed.
    let wrong = tab.wrong();
    assert!(wrong.iter().all(|line| line.contains("404")), "{wrong:?}");
    chromium.end().await;
}
