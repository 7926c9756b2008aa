//! The proxy end to end: real sockets on loopback, a real store file, the real I/O engine.
//!
//! Each test is a small play: an origin with a script, a proxy, clients that speak raw bytes (`harness`). They are told
//! by what could go wrong:
//!
//! | file | for |
//! |---|---|
//! | `cache` | what is stored and found again, and what makes it go |
//! | `cluster_purge` | purges of a whole cluster, and members that were away |
//! | `details` | smaller rules of HTTP |
//! | `downloads` | large downloads that a purge overtakes |
//! | `disk` | crashes, several stores, parts that are lost |
//! | `hanging` | a disk that hangs, stores that cannot be opened |
//! | `purge` | purges by prefix and tag, soft ones, over crashes and against fetches |
//! | `purge_port` | PURGE on a listener's own port |
//! | `access_log` | what is logged of a request |
//! | `records` | the profile's record of a request: stages, flags, names |
//! | `events` | the profile: disk stages, device reads and writes, seconds, marks; listening to it |
//! | `admin` | the admin interface: status, metrics, purges, draining |
//! | `dashboard` | what the admin interface tells whoever looks on, and its page in a browser |
//! | `rules` | the operator's cache rules |
//! | `explained` | what `loligo explain` says of random rules, and what becomes of the request |
//! | `access_rules` | who may ask what: rules that deny, answer and redirect |
//! | `field_rules` | fields that rules change |
//! | `validation` | what is stale or doubted |
//! | `sharing` | many requests, one fetch; purges racing fetches and reads |
//! | `herds` | many at once: how often the origin is asked |
//! | `framing` | messages as RFC 9112 wants them, and those it forbids |
//! | `bodies` | request bodies, early responses |
//! | `budgets` | what many may take together, and the slow |
//! | `crowded` | more bodies on their way than there is memory for |
//! | `negative` | failures that are remembered |
//! | `origin_http2` | HTTP/2 to origins: what is as over HTTP/1, what is sent again, origins that break it; gRPC |
//! | `origin_tls` | TLS to origins: client certificates, names, keys, whoever is trusted |
//! | `signing` | requests that are signed for an object store |
//! | `origins` | connections to origins: which are used again and by what, names that move, what clients are told of failures |
//! | `smuggling`, `downgraded`, `forged` | requests and responses that two readers could read differently |
//! | `targeted` | fields for caches like us |
//! | `interim` | interim responses |
//! | `head` | HEAD, and what its answers mean for what is stored |
//! | `reload` | a new configuration while the proxy serves |
//! | `access` | where a client may make the proxy go, and what an origin is told of it |
//! | `proxy_protocol` | who the client is when balancers stand before the proxy |
//! | `limits` | limits of clients, hosts and listeners |
//! | `forward` | absolute targets, tunnels, upgrades, loops |
//! | `hierarchy`, `hierarchy_siblings` | parents and siblings: who is asked, and when they fail |
//! | `cluster_looking` | what is told of the members of a cluster |
//! | `cluster_push` | what fronts fetch and members keep |
//! | `cluster_routing` | a front of a cluster: who is asked, and when members fail |
//! | `hints`, `hints_of_siblings` | ICP and digests: what siblings may ask of us beside objects, and what we ask of them |
//! | `cluster` | links of a cluster: who is let in, what members know of each other |
//! | `hostile` | origins that die, lie or babble; clients that leave |
//! | `ranges` | parts of what is stored and of what arrives |
//! | `parts` | parts of what is not stored, or not wholly |
//! | `blocks` | what ranges of large objects read from the disk, and what damaged blocks spoil |
//! | `left_behind` | answers that stall when their clients leave |
//! | `keys` | what a key means whatever the configuration |
//! | `large` | bodies larger than memory should be |
//! | `acme` | certificates that are ordered from an authority, and authorities that fail |
//! | `tls` | TLS to clients: certificates, handshakes, what goes over it |
//! | `http2`, `http2_tunnels` | HTTP/2 to clients: what is the same as over HTTP/1, and what is not; tunnels |
//! | `http2_bounds` | what a connection of HTTP/2 may have, and heads that are unlike HTTP/1's |
//! | `http2_policy` | rules, limits and who is let in, over HTTP/2 |
//! | `endings` | how connections end that we end, and what clients still get of them |
//! | `http2_attacked` | what others see of an attack |
//! | `http2_hostile`, `http2_life` | those who lie, flood and dawdle; resets, reloads, the end of connections |
//! | `mirrors` | routes that mirror package indexes and registries |
//! | `real_clients`, `real_clients_grpc` | curl, nghttp, h2load, Go, Node, Python, gRPC, git, package managers and a browser over TLS and HTTP/2; what honest clients do, and attacks do too (`honest`); Go through upgrades and a stop (`upgraded`) |
//! | `upstreams` | several servers behind a name |
//! | `workers` | several threads that accept |
//! | `ways` | a part of these once more, over TLS and over HTTP/2 |

mod access;
mod access_log;
mod access_rules;
mod acme;
mod admin;
mod blocks;
mod bodies;
mod budgets;
mod cache;
mod cluster;
mod cluster_discovery;
mod cluster_looking;
mod cluster_parted;
mod cluster_purge;
mod cluster_push;
mod cluster_routing;
mod crowded;
mod crowded_origins;
mod dashboard;
mod details;
mod disk;
mod downgraded;
mod downloads;
mod endings;
mod events;
mod explained;
mod field_rules;
mod forged;
mod forward;
mod framing;
mod hanging;
mod harness;
mod head;
mod herds;
mod hierarchy;
mod hierarchy_siblings;
mod hints;
mod hints_of_siblings;
mod hostile;
mod hot;
mod http2;
mod http2_attacked;
mod http2_bounds;
mod http2_client;
mod http2_counted;
mod http2_crowd;
mod http2_hostile;
mod http2_life;
mod http2_policy;
mod http2_raw;
mod http2_tunnels;
mod huge;
mod interim;
mod keys;
mod laggards;
mod large;
mod left_behind;
mod limits;
mod memory;
mod mirrors;
mod mirrors_redirected;
mod monitoring;
mod negative;
mod one_read;
mod origin_http2;
mod origin_http2_grpc;
mod origin_http2_servers;
mod origin_tls;
mod origins;
mod parts;
mod parts_short;
mod peers_review;
mod proxy_protocol;
mod purge;
mod purge_port;
mod purges;
mod quick_abort;
mod ranges;
mod real_clients;
mod real_clients_grpc;
mod records;
mod reload;
mod rules;
mod rules_parts;
mod sharing;
mod signing;
mod smuggling;
mod stale_parts;
mod targeted;
mod tls;
mod tls_early;
mod tls_unusable;
mod upgrade;
mod upstreams;
mod upstreams_by_name;
mod validation;
mod waiters;
mod ways;
mod workers;
