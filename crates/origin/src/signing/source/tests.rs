//! Sources of credentials that answer well, badly, late and not at all.

use super::*;
use crate::{Connector, Settings, Tls};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Asks a source while a service gives these answers, one a connection. Returns the credentials or the error, and the requests. In `variables`,
/// `AT` stands for the service's address.
async fn asked(
    credentials: CredentialSource,
    variables: &[(&str, &str)],
    answers: &[(u16, &str)],
) -> (Result<Credentials, String>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let serving = async {
        let mut requests = Vec::new();
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = vec![0; 4096];
            let bytes = stream.read(&mut got).await.unwrap();
            requests.push(String::from_utf8_lossy(&got[..bytes]).into_owned());
            let length = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        requests
    };
    let settings = Signing {
        region: "eu-central-1".to_owned(),
        service: "s3".to_owned(),
        credentials,
        writes: false,
    };
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.replace("AT", &at))
    };
    let context = OriginContext::apart(Connector::new(Settings::default(), Tls::only(Vec::new())));
    let asking = Asking {
        context: &context,
        limits: http1::Limits::default(),
        variable: &variable,
    };
    tokio::join!(ask(&settings, &asking), serving)
}

const JSON: &str =
    r#"{"AccessKeyId":"ID","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-28T20:00:00Z"}"#;

#[tokio::test]
async fn an_instance_is_asked_with_a_token_of_its_own() {
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AT/")];
    let answers = [(200, "tok=="), (200, "role\n"), (200, JSON)];
    let (given, asked) = asked(CredentialSource::Instance, &variables, &answers).await;
    assert_eq!(given.unwrap().access_key, "ID");
    assert!(
        asked[0].starts_with("PUT /latest/api/token HTTP/1.1\r\n"),
        "{}",
        asked[0]
    );
    assert!(asked[2].starts_with("GET /latest/meta-data/iam/security-credentials/role "));
    assert!(
        asked[1..]
            .iter()
            .all(|it| it.contains("X-aws-ec2-metadata-token: tok==\r\n"))
    );
}

#[tokio::test]
async fn a_container_is_asked_where_its_variables_say() {
    let variables = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AT/creds?x=1"),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "word"),
    ];
    let (given, asked) = asked(CredentialSource::Instance, &variables, &[(200, JSON)]).await;
    assert_eq!(given.unwrap().session_token.as_deref(), Some("t"));
    assert!(
        asked[0].starts_with("GET /creds?x=1 ") && asked[0].contains("Authorization: word\r\n")
    );
}

#[test]
fn a_path_for_a_container_is_one_at_its_own_address() {
    let url = |names: &[&str]| {
        container_url(&|name| {
            let is_set = names.iter().any(|it| name.contains(it));
            is_set.then(|| format!("/{}", name.len()))
        })
    };
    assert_eq!(url(&[]), None);
    let relative = Some("http://169.254.170.2/38".to_owned());
    assert_eq!(url(&["RELATIVE"]), relative);
    assert_eq!(url(&["RELATIVE", "FULL"]), relative);
    assert_eq!(url(&["FULL"]).as_deref(), Some("/34"));
}

#[tokio::test]
async fn a_token_of_an_orchestrator_is_exchanged() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "a.b/c+d\n").unwrap();
    let variables = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.path().to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_ENDPOINT_URL_STS", "AT"),
    ];
    let xml = "<R><Credentials><AccessKeyId>ID</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
               <SessionToken>t</SessionToken><Expiration>2026-11-28T20:00:00Z</Expiration></Credentials></R>";
    let (given, requests) = asked(CredentialSource::WebIdentity, &variables, &[(200, xml)]).await;
    assert_eq!(given.unwrap().until_unix_s, Some(1_795_896_000));
    let form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr\
                &RoleSessionName=loligo&WebIdentityToken=a.b%2Fc%2Bd";
    assert!(
        requests[0].starts_with("POST / HTTP/1.1") && requests[0].ends_with(form),
        "{}",
        requests[0]
    );
    let refusal =
        "<E><Error><Code>InvalidIdentityToken</Code><Message>a.b/c+d</Message></Error></E>";
    let answers = [(400, refusal)];
    let why = asked(CredentialSource::WebIdentity, &variables, &answers)
        .await
        .0
        .unwrap_err();
    assert!(
        why.contains("400 InvalidIdentityToken") && !why.contains("a.b/c+d"),
        "{why}"
    );
}

#[tokio::test]
async fn what_is_missing_is_named_and_nothing_of_a_key_is() {
    let none = |of| async { asked(of, &[], &[]).await.0.unwrap_err() };
    assert!(
        none(CredentialSource::Environment)
            .await
            .contains("AWS_ACCESS_KEY_ID is not set")
    );
    assert!(
        none(CredentialSource::WebIdentity)
            .await
            .contains("AWS_WEB_IDENTITY_TOKEN_FILE")
    );
    let missing = none(CredentialSource::File("/missing/keys".into())).await;
    assert!(
        missing.contains("/missing/keys cannot be read"),
        "{missing}"
    );
    let variables = [
        ("AWS_ACCESS_KEY_ID", "ID"),
        ("AWS_SECRET_ACCESS_KEY", "se cret"),
    ];
    let odd = asked(CredentialSource::Environment, &variables, &[])
        .await
        .0
        .unwrap_err();
    assert!(!odd.contains("se cret"), "{odd}");
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AT")];
    let answers = [(403, "no")];
    let refused = asked(CredentialSource::Instance, &variables, &answers)
        .await
        .0
        .unwrap_err();
    assert!(
        refused.contains("answers 403; has this machine a role?"),
        "{refused}"
    );
    let answers = [(200, "tok\r\nX: y")];
    let refused = asked(CredentialSource::Instance, &variables, &answers);
    let refused = refused.await.0.unwrap_err();
    assert!(refused.contains("answers 200"), "{refused}");
    let url = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AT");
    let variables = [url];
    let answers = [(500, JSON)];
    let refused = asked(CredentialSource::Instance, &variables, &answers);
    let refused = refused.await.0.unwrap_err();
    assert!(
        refused.contains("answers 500 without credentials"),
        "{refused}"
    );
    let variables = [url, ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "word\r\nX: y")];
    let odd = asked(CredentialSource::Instance, &variables, &[]).await;
    let odd = odd.0.unwrap_err();
    assert!(odd.contains("no line of text"), "{odd}");
}
