//! Certificates of members, of which each is valid for the host of one address.

use tonic::transport::{Certificate, ClientTlsConfig};

use super::*;

fn secured(members: &Members, ca: &str) -> Options {
    let mut options = Options::at("https://m1", "rm").unwrap();
    options.dial = members.dial();
    options.shuffle = |_| {};
    options.tls(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_certificate_is_valid_for_its_own_address() {
    let (members, ca) = Members::with_certificates(&[("m1", "m1"), ("m2", "m1"), ("m3", "m3")]);
    let mut program = Program::registered(secured(&members, &ca)).await;
    sleep(Duration::from_secs(2)).await;
    members.kill("m1");
    assert_eq!(program.session().await, 2);
    assert_eq!(members.registrations(), ["m1", "m3"], "the certificate of m2 is that of m1");
}

#[tokio::test(start_paused = true)]
async fn one_name_may_be_set_for_all_addresses() {
    let (members, ca) = Members::with_certificates(&[("m1", "members"), ("m2", "members")]);
    let mut program = Program::registered(secured(&members, &ca).tls_name("members")).await;
    sleep(Duration::from_secs(2)).await;
    members.kill("m1");
    assert_eq!(program.session().await, 2);
    assert_eq!(members.registrations(), ["m1", "m2"]);
}
