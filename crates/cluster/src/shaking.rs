//! The handshake over a connection, from both sides.
//!
//! Refused connections are counted, and logged at most once a minute.
//!
//! Not known here: how a connection is made, and its later use.
//! Limits: [`SHAKEN_WITHIN`] for the whole handshake.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hints::handshake::{Answer, Hello, MESSAGE_BYTES_MAX, PROOF_BYTES, Purpose, Welcome};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::{member::Who, roll::Said, state::Cluster};
use base::{
    chance,
    clock::Instant,
    member::{MemberId, OfMember, Refusal},
    socket::Socket,
};
use origin::{Introduced, Introduction};
use plan::proof::{Cover, Prover, is_proof, prove};

/// Time limit of a handshake.
const SHAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Least interval of log lines about refused connections, seconds.
const SAID_EVERY_S: u64 = 60;

/// A connection that a member has opened to us.
pub struct Shaken {
    /// The member that opened it.
    pub member: MemberId,
    /// The purpose it was opened for.
    pub purpose: Accepted,
    /// Encrypts values that only the two sides may read.
    pub cover: Cover,
}

/// A connection that we have opened to a member.
pub struct Opened {
    /// Its name.
    pub name: String,
    /// Number of its process: differs from start to start.
    pub incarnation: u64,
    /// Encrypts values that only the two sides may read.
    pub cover: Cover,
}

/// The use of an accepted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// A link.
    Frames,
    /// HTTP requests to our listener of this number.
    Http(usize),
}

/// Opens a link over this connection. `to`: the member that it leads to, of which perhaps only the address is known yet.
///
/// # Errors
/// One of the two sides refuses.
pub async fn open_link<S>(cluster: &Cluster, stream: &mut S, to: &Who) -> Result<Opened, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    open(cluster, stream, to, Purpose::Frames).await
}

impl Introduction for Cluster {
    fn introduce<'a>(&'a self, to: OfMember, stream: &'a mut Socket) -> Introduced<'a> {
        Box::pin(open_http(self, stream, to.id, to.listener))
    }
}

/// Prepares a connection for HTTP requests to a listener of that member: the one with the same name as our listener of this number.
///
/// # Errors
/// One of the two sides refuses.
async fn open_http<S>(
    cluster: &Cluster,
    stream: &mut S,
    member: MemberId,
    listener: usize,
) -> Result<(), Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = cluster.listeners.get(listener).ok_or(Refusal::NoListener)?;
    let purpose = Purpose::Http(name.as_bytes().to_vec());
    let to = cluster.member(member).and_then(|it| it.who());
    let to = to.filter(|who| who.is_named).ok_or(Refusal::Unknown)?;
    open(cluster, stream, &to, purpose).await.map(drop)
}

async fn open<S>(
    cluster: &Cluster,
    stream: &mut S,
    to: &Who,
    purpose: Purpose,
) -> Result<Opened, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let hello = Hello {
        nonce: nonce()?,
        incarnation: cluster.incarnation,
        from: cluster.plan.name.as_bytes().to_vec(),
        at: cluster.plan.address.to_string().into_bytes(),
        // Name nobody when linking to a discovered member: its address may by now belong to another member.
        to: match purpose == Purpose::Frames && to.is_discovered {
            true => Vec::new(),
            false => to.name.as_bytes().to_vec(),
        },
        purpose,
    };
    let shaken = timeout(SHAKEN_WITHIN, opened(cluster, stream, &hello)).await;
    let shaken = shaken.unwrap_or(Err(Refusal::Broken(io::ErrorKind::TimedOut)));
    if let Err(refusal) = shaken
        && refusal.is_told()
    {
        refused(cluster, &to.at.to_string(), refusal);
    }
    shaken
}

async fn opened<S>(cluster: &Cluster, stream: &mut S, hello: &Hello) -> Result<Opened, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let key = &cluster.plan.key;
    let said = hello.encode();
    send(stream, &said).await?;
    let message = receive(stream).await?;
    let (answer, proof) = message
        .split_last_chunk::<PROOF_BYTES>()
        .ok_or(Refusal::Foreign)?;
    let told = Answer::decode(answer)?;
    if !hello.to.is_empty() && told.name != hello.to {
        return Err(Refusal::OtherName);
    }
    let both = [&said[..], answer];
    if !is_proof(key, Prover::Acceptor, both, proof) {
        return Err(Refusal::NoProof);
    }
    if told.name == hello.from {
        return Err(match told.incarnation == hello.incarnation {
            true => Refusal::Own,
            false => Refusal::OwnName,
        });
    }
    let name = name_of(&told.name)?.to_owned();
    send(stream, &prove(key, Prover::Opener, both)).await?;
    match Welcome::of(stream.read_u8().await?) {
        Some(Welcome::Yes) => Ok(Opened {
            name,
            incarnation: told.incarnation,
            cover: Cover::new(key, both),
        }),
        Some(Welcome::NoProof) => Err(Refusal::NoProof),
        Some(Welcome::Unknown) => Err(Refusal::Unknown),
        Some(Welcome::OtherName) => Err(Refusal::OtherName),
        Some(Welcome::NoListener) => Err(Refusal::NoListener),
        Some(Welcome::Busy) => Err(Refusal::Busy),
        None => Err(Refusal::Foreign),
    }
}

/// Accepts a connection that somebody has opened to us. `is_busy`: refuse all members for now.
///
/// # Errors
/// One of the two sides refuses.
pub async fn accept<S>(
    cluster: &Cluster,
    stream: &mut S,
    from: SocketAddr,
    is_busy: bool,
) -> Result<Shaken, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let shaken = timeout(SHAKEN_WITHIN, accepted(cluster, stream, from, is_busy)).await;
    let shaken = shaken.unwrap_or(Err(Refusal::Broken(io::ErrorKind::TimedOut)));
    if let Err(refusal) = &shaken
        && refusal.is_told()
    {
        refused(cluster, &from.to_string(), *refusal);
    }
    shaken
}

async fn accepted<S>(
    cluster: &Cluster,
    stream: &mut S,
    from: SocketAddr,
    is_busy: bool,
) -> Result<Shaken, Refusal>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let key = &cluster.plan.key;
    let said = receive(stream).await?;
    let hello = Hello::decode(&said)?;
    let answer = Answer {
        nonce: nonce()?,
        incarnation: cluster.incarnation,
        name: cluster.plan.name.as_bytes().to_vec(),
    };
    let answer = answer.encode();
    let both = [&said[..], &answer[..]];
    let proof = prove(key, Prover::Acceptor, both);
    send(stream, &[&answer[..], &proof].concat()).await?;
    let theirs = receive(stream).await?;
    let verdict = match is_proof(key, Prover::Opener, both, &theirs) {
        false => Err(Refusal::NoProof),
        true => welcome(cluster, &hello, from, is_busy),
    };
    let code = match &verdict {
        Ok(_) => Welcome::Yes,
        Err(Refusal::NoProof) => Welcome::NoProof,
        Err(Refusal::OtherName) => Welcome::OtherName,
        Err(Refusal::NoListener) => Welcome::NoListener,
        Err(Refusal::Busy) => Welcome::Busy,
        Err(_) => Welcome::Unknown,
    };
    stream.write_u8(code.code()).await?;
    let (member, purpose) = verdict?;
    Ok(Shaken {
        member,
        purpose,
        cover: Cover::new(key, both),
    })
}

/// Judges the hello of a peer that has proved the key.
fn welcome(
    cluster: &Cluster,
    hello: &Hello,
    from: SocketAddr,
    is_busy: bool,
) -> Result<(MemberId, Accepted), Refusal> {
    if !hello.to.is_empty() && hello.to != cluster.plan.name.as_bytes() {
        return Err(Refusal::OtherName);
    }
    if hello.from == cluster.plan.name.as_bytes() {
        return Err(match hello.incarnation == cluster.incarnation {
            true => Refusal::Own,
            false => Refusal::OwnName,
        });
    }
    let said = Said {
        name: name_of(&hello.from)?,
        incarnation: hello.incarnation,
    };
    let member = match hello.purpose {
        _ if is_busy => cluster.member_named(&hello.from),
        Purpose::Frames => cluster.knocked(said, reached_at(&hello.at, from)),
        Purpose::Http(_) => cluster.member_named(&hello.from),
    };
    let member = member.ok_or(Refusal::Unknown)?;
    if is_busy {
        return Err(Refusal::Busy);
    }
    let purpose = match &hello.purpose {
        Purpose::Frames => Accepted::Frames,
        Purpose::Http(listener) => {
            let listener = cluster.listener_named(listener);
            Accepted::Http(listener.ok_or(Refusal::NoListener)?)
        }
    };
    Ok((member, purpose))
}

/// The address at which a peer can be reached. It may not know its own IP, so an unspecified one is replaced by the source address.
fn reached_at(said: &[u8], from: SocketAddr) -> SocketAddr {
    let said: Option<SocketAddr> = std::str::from_utf8(said)
        .ok()
        .and_then(|it| it.parse().ok());
    match said {
        Some(said) if said.ip().is_unspecified() => SocketAddr::new(from.ip(), said.port()),
        Some(said) => said,
        None => from,
    }
}

/// Accepts only names that the configuration would accept: they appear in logs and header fields.
fn name_of(bytes: &[u8]) -> Result<&str, Refusal> {
    let is_word = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
    let name = std::str::from_utf8(bytes).ok().filter(|_| is_word);
    name.ok_or(Refusal::NoName)
}

/// Counts a refused connection, and logs it at most once a minute.
fn refused(cluster: &Cluster, with: &str, why: Refusal) {
    static SAID_AT_S: AtomicU64 = AtomicU64::new(0);
    let relaxed = Ordering::Relaxed;
    cluster.counters.handshakes_refused.fetch_add(1, relaxed);
    let now_s = 1 + Instant::now().duration_since(cluster.began).as_secs();
    let is_due = |at: u64| (at == 0 || now_s.abs_diff(at) >= SAID_EVERY_S).then_some(now_s);
    if SAID_AT_S.fetch_update(relaxed, relaxed, is_due).is_ok() {
        tracing::warn!(
            with,
            "a cluster connection was refused: {why}. Further ones are counted only"
        );
    }
}

fn nonce() -> Result<[u8; PROOF_BYTES], Refusal> {
    let mut nonce = [0; PROOF_BYTES];
    chance::fill(&mut nonce).map_err(|_| Refusal::Busy)?;
    Ok(nonce)
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, message: &[u8]) -> io::Result<()> {
    let length = (message.len() as u16).to_le_bytes();
    stream.write_all(&[&length[..], message].concat()).await
}

async fn receive<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Vec<u8>, Refusal> {
    let length = usize::from(stream.read_u16_le().await?);
    if length > MESSAGE_BYTES_MAX {
        return Err(Refusal::Foreign);
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{ClusterKey, ClusterMember, Listener, Plan};
    use tokio::io::duplex;

    const FROM: &str = "127.0.0.1:40000";

    fn member(own: &str, other: &str, key: u8) -> Cluster {
        let forward = Listener::forward(([127, 0, 0, 1], 0).into(), Vec::new());
        let mut plan = Plan::with_listeners(vec![forward]);
        plan.cluster = Some(plan::Cluster {
            name: own.into(),
            key: ClusterKey::new([key; ClusterKey::BYTES]),
            members: vec![ClusterMember {
                name: other.into(),
                ..ClusterMember::default()
            }],
            ..plan::Cluster::default()
        });
        Cluster::new(&plan, None).unwrap().unwrap()
    }

    async fn shake(
        one: &Cluster,
        two: &Cluster,
        purpose: Purpose,
    ) -> (Result<Opened, Refusal>, Result<Shaken, Refusal>) {
        let (mut ours, mut theirs) = duplex(4096);
        let opened = async {
            let to = one.member(MemberId(0)).and_then(|it| it.who()).unwrap();
            let opened = open(one, &mut ours, &to, purpose).await;
            drop(ours);
            opened
        };
        tokio::join!(
            opened,
            accept(two, &mut theirs, FROM.parse().unwrap(), false)
        )
    }

    #[tokio::test]
    async fn two_members_with_one_key_share_a_cover() {
        let (one, two) = (member("a", "b", 1), member("b", "a", 1));
        let (opened, accepted) = shake(&one, &two, Purpose::Frames).await;
        let accepted = accepted.unwrap();
        assert_eq!(accepted.purpose, Accepted::Frames);
        let covered = opened.unwrap().cover.apply(0, 42);
        assert_eq!(accepted.cover.apply(0, covered), 42);
        let (opened, accepted) = shake(&one, &two, Purpose::Http(b"1".to_vec())).await;
        assert!(opened.is_ok());
        assert_eq!(accepted.unwrap().purpose, Accepted::Http(0));
    }

    #[tokio::test]
    async fn who_has_another_key_or_name_is_refused_and_counted() {
        let purpose = || Purpose::Frames;
        for (one, two, told) in [
            (member("a", "b", 1), member("b", "a", 2), Refusal::NoProof),
            (member("a", "x", 1), member("b", "a", 1), Refusal::OtherName),
            (member("x", "b", 1), member("b", "a", 1), Refusal::Unknown),
        ] {
            let (opened, accepted) = shake(&one, &two, purpose()).await;
            assert_eq!(opened.err(), Some(told));
            assert!(accepted.is_err());
            let counted = one.counters.handshakes_refused.load(Ordering::Relaxed);
            assert_eq!(counted, 1, "{told:?}");
        }
        let (one, two) = (member("a", "b", 1), member("b", "a", 1));
        let (opened, accepted) = shake(&one, &two, Purpose::Http(b"7".to_vec())).await;
        assert_eq!(opened.err(), Some(Refusal::NoListener));
        assert!(accepted.is_err());
    }

    /// An attacker that has recorded a handshake sends the same hello and the same proof.
    #[tokio::test]
    async fn a_handshake_that_was_overheard_is_of_no_use() {
        let (one, two) = (member("a", "b", 1), member("b", "a", 1));
        let hello = Hello {
            purpose: Purpose::Frames,
            nonce: [0; PROOF_BYTES],
            incarnation: 1,
            from: b"a".to_vec(),
            at: Vec::new(),
            to: b"b".to_vec(),
        };
        let mut overheard = Vec::new();
        for _ in 0..2 {
            let (mut ours, mut theirs) = duplex(4096);
            let opened = async {
                let said = hello.encode();
                send(&mut ours, &said).await.unwrap();
                let message = receive(&mut ours).await.unwrap();
                if overheard.is_empty() {
                    let (answer, _) = message.split_last_chunk::<PROOF_BYTES>().unwrap();
                    overheard = prove(&one.plan.key, Prover::Opener, [&said, answer]).to_vec();
                    send(&mut ours, &overheard).await.unwrap();
                    return ours.read_u8().await.unwrap();
                }
                send(&mut ours, &overheard).await.unwrap();
                ours.read_u8().await.unwrap()
            };
            let (code, accepted) = tokio::join!(
                opened,
                accept(&two, &mut theirs, FROM.parse().unwrap(), false)
            );
            match Welcome::of(code).unwrap() {
                Welcome::Yes => assert!(accepted.is_ok()),
                other => {
                    assert_eq!(other, Welcome::NoProof);
                    assert_eq!(accepted.err(), Some(Refusal::NoProof));
                    return;
                }
            }
        }
        panic!("the same proof was taken twice");
    }

    #[test]
    fn somebody_is_reached_where_it_says_or_where_it_comes_from() {
        let from = "10.0.0.7:40000".parse().unwrap();
        for (said, at) in [
            ("10.0.0.8:3130", "10.0.0.8:3130"),
            ("0.0.0.0:3131", "10.0.0.7:3131"),
            ("[::]:3131", "10.0.0.7:3131"),
            ("nonsense", "10.0.0.7:40000"),
        ] {
            assert_eq!(reached_at(said.as_bytes(), from).to_string(), at);
        }
    }

    #[tokio::test]
    async fn somebody_who_speaks_http_is_refused() {
        let two = member("b", "a", 1);
        let (mut ours, mut theirs) = duplex(4096);
        ours.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let accepted = accept(&two, &mut theirs, FROM.parse().unwrap(), false).await;
        assert_eq!(accepted.err(), Some(Refusal::Foreign));
    }
}
