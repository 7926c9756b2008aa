//! One order: account, challenges, certificate.
//!
//! Not known here: files of certificates, when an order is due, how messages are sent.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};

use super::{challenges::Challenges, courier::Courier, files};
use plan::Acme;

/// How often, and for how long, the authority is asked for progress.
const POLICY: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .timeout(Duration::from_secs(120));

/// Makes an order. Returns the chain and its key in PEM, or why there is none.
pub async fn order(acme: &Acme, challenges: &Challenges, http: Courier) -> Result<String, String> {
    let account = account(acme, http).await?;
    let names: Vec<Identifier> = acme.names.iter().cloned().map(Identifier::Dns).collect();
    let order = account.new_order(&NewOrder::new(&names)).await;
    let mut order = order.map_err(|error| in_words("the order", &error))?;
    answer_challenges(&mut order, challenges).await?;
    match order.poll_ready(&POLICY).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => return Err(why_refused(&mut order).await),
        Err(error) => return Err(in_words("the challenges", &error)),
    }
    let made = KeyPair::generate().and_then(|key| {
        let mut params = CertificateParams::new(acme.names.clone())?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key)?;
        Ok((key, request))
    });
    let (key, request) = made.map_err(|error| format!("a key cannot be made: {error}"))?;
    let ended = order.finalize_csr(request.der()).await;
    ended.map_err(|error| in_words("the end of the order", &error))?;
    let chain = order.poll_certificate(&POLICY).await;
    let chain = chain.map_err(|error| in_words("the certificate", &error))?;
    let key = files::pem("PRIVATE KEY", &key.serialize_der());
    Ok(format!("{}\n{key}", chain.trim_end()))
}

async fn account(acme: &Acme, http: Courier) -> Result<Account, String> {
    let builder = Account::builder_with_http(Box::new(http));
    let failed = |error| in_words("the account", &error);
    if let Some(known) = files::account(acme) {
        return builder.from_credentials(known).await.map_err(failed);
    }
    let contact = acme.contact.as_ref().map(|to| format!("mailto:{to}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let created = builder.create(&new, acme.directory.clone(), None).await;
    let (account, credentials) = created.map_err(failed)?;
    files::keep_account(acme, &credentials)?;
    Ok(account)
}

/// Opens the challenge of each name, and tells the authority to check it.
async fn answer_challenges(order: &mut Order, challenges: &Challenges) -> Result<(), String> {
    let failed = |error| in_words("a challenge", &error);
    let mut authorizations = order.authorizations();
    while let Some(next) = authorizations.next().await {
        let mut authorization = next.map_err(failed)?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => return Err(format!("an authorization is {status:?}")),
        }
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err("the authority offers no tls-alpn-01".to_owned());
        };
        let name = challenge.identifier().to_string();
        let digest = challenge.key_authorization().digest();
        challenges.open(&name, digest.as_ref())?;
        challenge.set_ready().await.map_err(failed)?;
    }
    Ok(())
}

/// The authority's reason for not accepting a challenge.
async fn why_refused(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else {
            continue;
        };
        if state.status == AuthorizationStatus::Valid {
            continue;
        }
        let fault = (state.challenges.iter()).find_map(|challenge| challenge.error.as_ref());
        let why = fault.map_or_else(String::new, |fault| format!(": {fault}"));
        let name = state.identifier();
        return format!("the challenge of {name} was not taken{why}");
    }
    "the authority does not take the challenges".to_owned()
}

fn in_words(of: &str, error: &Error) -> String {
    match error {
        Error::Json(error) => {
            format!("{of}: the authority's answer cannot be understood: {error}")
        }
        error => format!("{of}: {error}"),
    }
}
