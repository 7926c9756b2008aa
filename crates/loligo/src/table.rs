//! Every setting there is, in four tables: of the whole, of a store, of a listener, of a route. (A fifth, of a cache rule,
//! is in `rules`.)
//!
//! Numbers with bounds take them from `proxy::plan`. Settings that need more than a number (`Kind::Own`) bring
//! their own function, in `own`.

use proxy::plan::{CacheRules, Dns, Limits, PoolLimits, StorePlan, Storing, Timeouts};

use crate::draft::{Draft, ListenerDraft, RouteDraft, StoreDraft};
use crate::own;
use crate::settings::{Kind, Setting};

/// Settings of the whole; those that begin with `store.` are written into a store's block and hold for all stores.
pub const TOP: &[Setting<Draft>] = &[
    setting(
        "name",
        Kind::Own {
            form: "a token",
            default: "loligo",
            set: own::name,
        },
        "The name this proxy signs with in `Via` and `Cache-Status`. Give each proxy of a chain its own.",
    ),
    flagged(
        "workers",
        "--workers",
        Kind::Own {
            form: "a number, 1 to 256",
            default: "one a core",
            set: own::workers,
        },
        "Worker threads. Fewer leave cores to other programs.",
    ),
    flagged(
        "memory",
        "--memory",
        Kind::Own {
            form: "a size, 1MiB to 1024GiB, or `none`",
            default: "an eighth of the RAM, at most 1GiB",
            set: own::memory,
        },
        "Size of the memory tier, all workers together. More on a machine that does nothing else.",
    ),
    flagged(
        "admin.address",
        "--admin",
        Kind::Own {
            form: "`ADDRESS:PORT` or `none`",
            default: "127.0.0.1:3129",
            set: own::admin_address,
        },
        "Where the admin interface listens: `/metrics`, `/status`, `/healthz`, `PURGE`.",
    ),
    flagged(
        "admin.allow",
        "--admin-allow",
        Kind::Own {
            form: "networks",
            default: "none: this machine only",
            set: own::admin_allow,
        },
        "Who may use the admin interface beside this machine. Required when it listens beyond loopback.",
    ),
    setting(
        "admin.names",
        Kind::Own {
            form: "host names",
            default: "none",
            set: own::admin_names,
        },
        "Names by which it may be asked, beside IP addresses and localhost: for a Prometheus that scrapes it by name. Requests under other names get 421, since a web page may have made such a name point here.",
    ),
    setting(
        "admin.top",
        Kind::Switch(false, |d, on| d.plan.logs.top = on),
        "Count which hosts and URLs are asked for most, of late, and show them in `/status` and on the dashboard. It costs what an access log does, but for the writing. Off, because whoever may use the admin interface then sees what people ask for.",
    ),
    setting(
        "store.required",
        Kind::Switch(true, |d, on| d.plan.storing.required = on),
        "Of all stores. `true`: one that cannot be opened or written ends the start, before anybody can connect. `false`: it is left out, and the proxy serves with the others, or from memory; the log, `/healthz` and the metric `loligo_stores_absent` say so. While none is left, purges are answered 503, because what the lost store holds may come back.",
    ),
    flagged(
        "store.io-engine",
        "--io-engine",
        Kind::Own {
            form: "`auto`, `uring`, `threads`",
            default: "auto",
            set: own::io_engine,
        },
        "How the disk is read and written. `auto`: io_uring where the kernel allows it, else threads; `uring`: that or do not start.",
    ),
    setting(
        "store.replacement",
        Kind::Own {
            form: "`second-chance`, `second-chance=PERCENT`, `lru`, `lru-threshold=SIZE`, `gdsf`",
            default: "second-chance",
            set: own::replacement,
        },
        "What leaves a full store. `second-chance` makes room stretch by stretch in the order of writing, with long writes and little memory; what is used while its stretch is among the next PERCENT of the store (0 to 75, without a word 20) is written again; for short objects it is up to two and a half times as much, for long ones half, unless there are locality buffers. Lower on a flash device that wears out. The others evict object by object, at more memory and in small holes: to compare, or where a hit is worth more than disk time. `lru-threshold` stores nothing longer than SIZE, `gdsf` prefers to keep what is small.",
    ),
    setting(
        "store.admission",
        Kind::Own {
            form: "`all`, `second-hit`, `tinylfu`",
            default: "all",
            set: own::admission,
        },
        "What comes in. `second-hit`: what was missed before, lately; `tinylfu`: once the store is full, what was asked for twice lately. Both spare a flash device writes and keep out what is asked for once; the price is a miss for each object.",
    ),
    setting(
        "store.locality-buffers",
        Kind::Own {
            form: "`auto`, or a number, 0 to 128",
            default: "auto",
            set: own::locality_buffers,
        },
        "Origin servers of late whose objects are gathered in memory, 64KiB of each at most, and then go into the cluster together, so that what is asked for together lies together. `auto`: of 128, where and as long as reads are lazy. 0: none, objects lie in the order in which they come. A number: always.",
    ),
    setting(
        "store.lazy-reads",
        Kind::Own {
            form: "`auto`, or a number, 0 to 64",
            default: "auto",
            set: own::lazy_reads,
        },
        "So many reads of a worker wait for each other at most, to go to the disk in the order of their places, and so many are at the disk at a time, neighbours as one. `auto`: 10, where and as long as reads are measured to take long (1ms and more). 0: none. A number: always, for a disk known to have a head.",
    ),
    setting(
        "store.lazy-reads-deadline",
        Kind::Time(Storing::LAZY_READS_DEADLINE, |d, t| {
            d.plan.storing.lazy_reads_deadline = t
        }),
        "No read waits longer for others. Longer on a busy disk with a head gathers more; every read pays it when there are few.",
    ),
    setting(
        "store.read-wait",
        Kind::Time(Storing::READ_WAIT, |d, t| d.plan.storing.read_wait = t),
        "An answer that has waited so long for the disk comes from the origin instead: a disk that is asked for more than it can read serves what it can, and nobody waits in a queue that grows. A device that has answered nothing for as long (within 1s and 30s) is set aside until it answers: nobody asks it, and nothing is stored on it.",
    ),
    setting(
        "store.group-reads",
        Kind::Size(Storing::GROUP_BYTES, |d, n| {
            d.plan.storing.group_bytes = n as u32
        }),
        "Where reads take long (`lazy-reads`), a read goes on beyond its object up to this size: a head that has arrived reads 64KiB nearly as fast as 8. What it brings along of the same server, such as a page's images, waits in memory for being asked for; `locality-buffers` lay it together. Only with `second-chance`. 0: none.",
    ),
    setting(
        "store.cluster",
        Kind::Size(Storing::CLUSTER_BYTES, |d, n| {
            d.plan.storing.cluster_bytes = n as u32
        }),
        "Size of one write, a power of two: objects are gathered up to it.",
    ),
    setting(
        "store.cluster-deadline",
        Kind::Time(Storing::CLUSTER_DEADLINE, |d, t| {
            d.plan.storing.cluster_deadline = t
        }),
        "A cluster that is not full is written after this time.",
    ),
    setting(
        "store.fragment",
        Kind::Size(Storing::FRAGMENT_BYTES, |d, n| {
            d.plan.storing.fragment_bytes = n as u32
        }),
        "Longer objects are stored in pieces of this size, a power of two.",
    ),
    setting(
        "store.high-watermark",
        Kind::Count(Storing::HIGH_WATERMARK_PERCENT, |d, n| {
            d.plan.storing.watermarks.high_percent = n as u8
        }),
        "Percent of a store at which eviction begins, where objects leave one by one (not with `second-chance`).",
    ),
    setting(
        "store.low-watermark",
        Kind::Count(Storing::LOW_WATERMARK_PERCENT, |d, n| {
            d.plan.storing.watermarks.low_percent = n as u8
        }),
        "Percent of a store at which it ends; below the high one.",
    ),
    flagged(
        "log.access",
        "--access-log",
        Kind::Own {
            form: "a path, `-` or `none`",
            default: "none",
            set: own::access_log,
        },
        "The access log; `-` is standard output. SIGHUP or SIGUSR1 reopens the file.",
    ),
    flagged(
        "log.access-format",
        "--access-log-format",
        Kind::Own {
            form: "`squid`, `json`, `combined`",
            default: "squid",
            set: own::access_format,
        },
        "Squid's native format, one JSON object a line (all there is, the origin and the listener among it), or the combined format of Apache and nginx, which most analysers read. Each shows the URL as the client asked for it.",
    ),
    flagged(
        "log.profile",
        "--profile",
        Kind::Own {
            form: "a path or `none`",
            default: "none",
            set: own::profile,
        },
        "The profile file: one small binary record a request. `loligo profile dump` prints it.",
    ),
    flagged(
        "log.level",
        "--log-level",
        Kind::Own {
            form: "`error`, `warn`, `info`, `debug`, `trace`, or a filter such as `info,proxy=debug`",
            default: "info",
            set: own::log_level,
        },
        "How much is said on standard error.",
    ),
    setting(
        "limits.head-max",
        Kind::Size(Limits::HEAD_BYTES_MAX, |d, n| {
            d.plan.limits.head_bytes_max = n as usize
        }),
        "A request head; longer ones get 431. The default is what HAProxy and Node.js take, and room for a Kerberos ticket or many cookies. Larger where a browser is answered 431.",
    ),
    setting(
        "limits.response-head-max",
        Kind::Size(Limits::RESPONSE_HEAD_BYTES_MAX, |d, n| {
            d.plan.limits.response_head_bytes_max = n as usize
        }),
        "A response head; longer ones become 502. Origins are trusted with more than clients: policies and cookies of large applications make long heads.",
    ),
    setting(
        "limits.head-buffer",
        Kind::Size(Limits::HEAD_BUFFER_BYTES, |d, n| {
            d.plan.limits.head_buffer_bytes = n
        }),
        "Heads that are not complete, and what comes behind requests, all together. Beyond it the largest and slowest are given up: 431 or 408 for clients, 502 for origins' answers. Heads that come whole take nothing of it.",
    ),
    setting(
        "limits.fields-max",
        Kind::Count(Limits::FIELDS_MAX, |d, n| {
            d.plan.limits.fields_max = n as usize
        }),
        "Field lines of a head; more get 431 or 502.",
    ),
    setting(
        "limits.target-max",
        Kind::Size(Limits::TARGET_BYTES_MAX, |d, n| {
            d.plan.limits.target_bytes_max = n as usize
        }),
        "A request target; longer ones get 414.",
    ),
    setting(
        "limits.client-rate-min",
        Kind::Count(Limits::CLIENT_RATE_MIN, |d, n| {
            d.plan.limits.client_rate_min = n
        }),
        "Bytes a second that a client must take, on the average of a minute in which there is something for it and it takes nothing; then its connection is reset. Pauses of less than a minute, waiting for an origin and tunnels do not count. `0`: no such rule.",
    ),
    setting(
        "limits.connections-max",
        Kind::Count(Limits::CONNECTIONS_MAX, |d, n| {
            d.plan.limits.connections_max = n as usize;
            d.connections_given = true;
        }),
        "Client connections. Without it the default is lowered to what the limit of open files (`ulimit -n`) bears. Beyond it new clients are turned away at once, and counted.",
    ),
    setting(
        "limits.object-max",
        Kind::Size(Limits::OBJECT_BYTES_MAX, |d, n| {
            d.plan.limits.object_bytes_max = n
        }),
        "Longer objects are passed through, not stored.",
    ),
    setting(
        "limits.memory-object-max",
        Kind::Size(Limits::MEMORY_OBJECT_BYTES_MAX, |d, n| {
            d.plan.limits.memory_object_bytes_max = n
        }),
        "Longer objects are kept out of the memory tier.",
    ),
    setting(
        "limits.transfer-buffer",
        Kind::Size(Limits::TRANSFER_BUFFER_BYTES, |d, n| {
            d.plan.limits.transfer_buffer_bytes = n
        }),
        "Bodies on their way between origins and clients, all together, with the fragments of large objects that are read from disk for them. Beyond it origins are read in small steps, and nothing more is stored. When fragments take half of it, clients that stand still give back what is held for them.",
    ),
    setting(
        "limits.transfer-max",
        Kind::Size(Limits::TRANSFER_BYTES_MAX, |d, n| {
            d.plan.limits.transfer_bytes_max = n
        }),
        "One transfer's part of that; then its origin is read no further until the readers catch up.",
    ),
    setting(
        "limits.waiters-max",
        Kind::Count(Limits::WAITERS_MAX, |d, n| {
            d.plan.limits.waiters_max = n as usize
        }),
        "Requests that may wait on one shared fetch; further ones fetch themselves.",
    ),
    setting(
        "timeouts.client-head",
        Kind::Time(Timeouts::CLIENT_HEAD, |d, t| {
            d.plan.timeouts.client_head = t
        }),
        "From the first byte of a request head to its last; then 408.",
    ),
    setting(
        "timeouts.client-idle",
        Kind::Time(Timeouts::CLIENT_IDLE, |d, t| {
            d.plan.timeouts.client_idle = t
        }),
        "Between requests on a kept-alive connection. Longer than that of a proxy in front.",
    ),
    setting(
        "timeouts.client-write",
        Kind::Time(Timeouts::CLIENT_WRITE, |d, t| {
            d.plan.timeouts.client_write = t
        }),
        "Without a byte taken by the client; then the connection is cut.",
    ),
    setting(
        "timeouts.client-body",
        Kind::Time(Timeouts::CLIENT_BODY, |d, t| {
            d.plan.timeouts.client_body = t
        }),
        "Without a byte of a request body; then 408.",
    ),
    setting(
        "timeouts.connect",
        Kind::Time(Timeouts::CONNECT, |d, t| d.plan.timeouts.connect = t),
        "For a connection to an origin, all its addresses and TLS included; then 504.",
    ),
    setting(
        "timeouts.origin-first-byte",
        Kind::Time(Timeouts::ORIGIN_FIRST_BYTE, |d, t| {
            d.plan.timeouts.origin_first_byte = t
        }),
        "For the whole head of a response, and anew behind each interim one; then 504. Longer for origins that compute.",
    ),
    setting(
        "timeouts.origin-idle-read",
        Kind::Time(Timeouts::ORIGIN_IDLE_READ, |d, t| {
            d.plan.timeouts.origin_idle_read = t
        }),
        "Without a byte of a response body; then the transfer fails.",
    ),
    setting(
        "timeouts.origin-write",
        Kind::Time(Timeouts::ORIGIN_WRITE, |d, t| {
            d.plan.timeouts.origin_write = t
        }),
        "Without a byte of a request body taken by the origin; then 504.",
    ),
    setting(
        "timeouts.pool-idle",
        Kind::Time(Timeouts::POOL_IDLE, |d, t| d.plan.timeouts.pool_idle = t),
        "Unused origin connections are closed after this. Shorter than the origin's own keep-alive time.",
    ),
    setting(
        "timeouts.tunnel-idle",
        Kind::Time(Timeouts::TUNNEL_IDLE, |d, t| {
            d.plan.timeouts.tunnel_idle = t
        }),
        "Without a byte either way in a tunnel or an upgraded connection.",
    ),
    setting(
        "timeouts.drain",
        Kind::Time(Timeouts::DRAIN, |d, t| d.plan.timeouts.drain = t),
        "For running requests after SIGTERM, SIGINT or SIGQUIT; then they are cut.",
    ),
    setting(
        "cache.heuristic-percent",
        Kind::Count(CacheRules::HEURISTIC_PERCENT, |d, n| {
            d.plan.cache.heuristic_percent = n as u32
        }),
        "A response that states no lifetime is fresh for this percentage of its age since Last-Modified. 0: not at all.",
    ),
    setting(
        "cache.heuristic-max",
        Kind::Time(CacheRules::HEURISTIC_MAX, |d, t| {
            d.plan.cache.heuristic_max = t
        }),
        "The most that rule may give.",
    ),
    setting(
        "cache.ttl-max",
        Kind::Time(CacheRules::TTL_MAX, |d, t| d.plan.cache.ttl_max = t),
        "The most any stated lifetime counts for.",
    ),
    setting(
        "cache.default-ttl",
        Kind::Time(CacheRules::DEFAULT_TTL, |d, t| d.plan.cache.default_ttl = t),
        "How long a response is fresh that states no lifetime and has no Last-Modified to guess from, if it is no error. 0: it is not kept.",
    ),
    setting(
        "cache.negative-ttl",
        Kind::Time(CacheRules::NEGATIVE_TTL, |d, t| {
            d.plan.cache.negative_ttl = t
        }),
        "How long an error that states no lifetime (404, 410 and the like) is fresh. 0: only as long as the origin says.",
    ),
    setting(
        "cache.error-ttl",
        Kind::Time(CacheRules::ERROR_TTL, |d, t| d.plan.cache.error_ttl = t),
        "How long a failure of the origin (500, 502, 503, 504) that states no lifetime is fresh. 0: only as long as the origin says.",
    ),
    setting(
        "cache.unreachable-ttl",
        Kind::Time(CacheRules::UNREACHABLE_TTL, |d, t| {
            d.plan.cache.unreachable_ttl = t
        }),
        "An origin that could not be connected to is not tried again for this long; what is stored is served stale where that is allowed. 0: it is tried for each request.",
    ),
    setting(
        "cache.stale-while-revalidate",
        Kind::Time(CacheRules::STALE_WHILE_REVALIDATE, |d, t| {
            d.plan.cache.stale_while_revalidate = t
        }),
        "For so long after its lifetime a response is served at once while the origin is asked behind the client's back, if the origin says nothing of that. Not what the origin forbids to serve stale (must-revalidate, proxy-revalidate, s-maxage, no-cache), no errors, and nothing that was never fresh. 0: not.",
    ),
    setting(
        "cache.stale-if-error",
        Kind::Time(CacheRules::STALE_IF_ERROR, |d, t| {
            d.plan.cache.stale_if_error = t
        }),
        "The same if the origin answers 500, 502, 503 or 504, or cannot be reached; then it is the limit. 0: an error is passed on, and what is stored is served, without limit, only if the origin cannot be reached.",
    ),
    setting(
        "cache.store-set-cookie",
        Kind::Switch(false, |d, on| d.plan.cache.store_set_cookie = on),
        "Store responses with Set-Cookie where nothing else forbids it, and the cookies with them. Without it such a response is stored only if the origin says `public` or `s-maxage`, and without its cookies, which only the client gets whose request brought them. Only for origins whose cookies are the same for everybody.",
    ),
    setting(
        "dns.servers",
        Kind::Own {
            form: "addresses",
            default: "the system's",
            set: own::dns_servers,
        },
        "Name servers, `ADDRESS` or `ADDRESS:PORT`, instead of those of /etc/resolv.conf.",
    ),
    setting(
        "dns.timeout",
        Kind::Time(Dns::TIMEOUT, |d, t| d.plan.dns.timeout = t),
        "For one query to one server.",
    ),
    setting(
        "dns.attempts",
        Kind::Count(Dns::ATTEMPTS, |d, n| d.plan.dns.attempts = n as usize),
        "Tries before a name counts as not resolvable.",
    ),
    setting(
        "dns.ttl-min",
        Kind::Time(Dns::TTL_MIN, |d, t| d.plan.dns.ttl_min = t),
        "Answers are kept at least this long.",
    ),
    setting(
        "dns.ttl-max",
        Kind::Time(Dns::TTL_MAX, |d, t| d.plan.dns.ttl_max = t),
        "Answers are kept at most this long.",
    ),
    setting(
        "dns.negative-ttl-max",
        Kind::Time(Dns::NEGATIVE_TTL_MAX, |d, t| {
            d.plan.dns.negative_ttl_max = t
        }),
        "\"No such name\" is kept at most this long.",
    ),
    setting(
        "dns.names-max",
        Kind::Count(Dns::NAMES_MAX, |d, n| d.plan.dns.names_max = n as usize),
        "Names kept; the oldest make room.",
    ),
    setting(
        "pool.per-origin-max",
        Kind::Count(PoolLimits::PER_ORIGIN_MAX, |d, n| {
            d.plan.pool.per_origin_max = n as usize
        }),
        "Connections of one worker to one origin. A miss holds one until it is answered: so many, times the workers, divided by the seconds a miss takes, get through each second. Without it the default is lowered to a worker's share of the open files (`ulimit -n`) that `connections-max` leaves. Lower to protect a weak origin; requests beyond it wait, at most for `timeouts.connect`.",
    ),
    setting(
        "pool.idle-per-origin-max",
        Kind::Count(PoolLimits::IDLE_PER_ORIGIN_MAX, |d, n| {
            d.plan.pool.idle_per_origin_max = n as usize
        }),
        "Unused connections one worker keeps to one origin; further ones are closed. With far fewer than `per-origin-max` a load that comes in waves opens new ones with each. Lowered like `per-origin-max`.",
    ),
    setting(
        "pool.idle-max",
        Kind::Count(PoolLimits::IDLE_MAX, |d, n| {
            d.plan.pool.idle_max = n as usize
        }),
        "Unused connections one worker keeps in all. Lowered like `per-origin-max`.",
    ),
    setting(
        "tls.ca-file",
        Kind::Own {
            form: "a path",
            default: "none",
            set: own::ca_file,
        },
        "PEM file of certificates to trust for https origins beside the system's.",
    ),
];

/// Settings of one store: of `[store]`, or of each `[[store]]`.
pub const STORE: &[Setting<StoreDraft>] = &[
    flagged(
        "path",
        "--store",
        Kind::Own {
            form: "a path or `none`",
            default: "`loligo/store` in the user's cache directory",
            set: own::store_path,
        },
        "One file, made if it is not there, or a block device (all that is on it goes). `none`: memory only. Where there are several stores, each needs one.",
    ),
    flagged(
        "size",
        "--store-size",
        Kind::Size(StorePlan::SIZE_BYTES, |s, n| s.size = Some(n)),
        "Its whole size; a file is preallocated. Without it a file that exists keeps its size, a block device is taken whole, and a new file gets the default, but at most half of the free space.",
    ),
    setting(
        "weight",
        Kind::Count(StorePlan::WEIGHT, |s, n| s.plan.weight = n as u32),
        "Its share of the objects, beside the weights of the others. As the sizes are to each other, where they differ. Changing it moves objects: those are fetched again.",
    ),
    setting(
        "chunk",
        Kind::Size(StorePlan::CHUNK_BYTES, |s, n| s.plan.chunk_bytes = n as u32),
        "Unit of allocation, a power of two. Larger: less memory for a store of large objects, more waste for small ones. Changing it empties the store.",
    ),
    setting(
        "direct",
        Kind::Switch(true, |s, on| s.plan.direct = on),
        "Bypass the page cache (O_DIRECT) where the file system can. Off to let the kernel cache the store too.",
    ),
    setting(
        "force",
        Kind::Switch(false, |s, on| s.plan.force = on),
        "Take it although it carries somebody else's signature: a file system, a partition table, a volume. What is there is lost. Only for the first start; take it out again.",
    ),
];

/// Settings of a `[[listener]]`.
pub const LISTENER: &[Setting<ListenerDraft>] = &[
    flagged(
        "address",
        "--listen",
        Kind::Own {
            form: "`ADDRESS:PORT` or a port",
            default: "127.0.0.1:3128",
            set: own::address,
        },
        "Where clients connect. A port alone means 127.0.0.1.",
    ),
    flagged(
        "allow",
        "--allow",
        Kind::Own {
            form: "networks or `any`",
            default: "none: this machine only",
            set: own::allow,
        },
        "Who may use it beside this machine. Required when it listens beyond loopback.",
    ),
    setting(
        "purge-from",
        Kind::Own {
            form: "networks or `any`",
            default: "none: PURGE is refused",
            set: own::purge_from,
        },
        "Whose `PURGE` is obeyed on this port, as modules of WordPress and Drupal send it: addresses of the machines the application runs on. This machine too must be named (`127.0.0.1`, `::1`), but not where a proxy on it passes on what the world asks: that is a client at 127.0.0.1 as well.",
    ),
    flagged(
        "origin",
        "--reverse",
        Kind::Own {
            form: "`http://HOST[:PORT][/PATH]` or https",
            default: "none: a forward proxy",
            set: own::listener_origin,
        },
        "Makes it a reverse proxy: everything no route takes goes to this origin.",
    ),
    setting(
        "pass-host",
        Kind::Switch(true, |l, on| l.pass_host = Some(on)),
        "With `origin`: send it the client's Host, so that its links and redirects lead back here. Each host is then cached for itself, and clients choose it: name the hosts in routes where that is too much. `false` (flag `--origin-host`): Host is the origin's own.",
    ),
    flagged(
        "client-directives",
        "--client-directives",
        Kind::Own {
            form: "`obey`, `revalidate`, `ignore`",
            default: "`revalidate`; with `origin` or routes `ignore`",
            set: own::client_directives,
        },
        "How much a client's Cache-Control and Pragma count. `obey`: all of it; a reload (`no-cache`, `max-age=0`) gets an answer that was asked for after it came. `revalidate`: the same, but reloads of one URL share one request to the origin, conditional where something is stored, and there is at most one a second. `ignore`: none but `only-if-cached`, so that no client can make the origin work for what is stored, or keep an answer from being stored; purge what is out of date.",
    ),
    setting(
        "targeted-cache-control",
        Kind::Switch(true, |l, on| l.targeted = Some(on)),
        "Reverse proxy: `Loligo-Cache-Control` and `CDN-Cache-Control` (RFC 9213) go before Cache-Control and Expires. `false` where another cache in front is meant. A forward proxy never obeys them: they speak to caches that work for the origin.",
    ),
    setting(
        "connect-ports",
        Kind::Own {
            form: "ports",
            default: "443",
            set: own::connect_ports,
        },
        "Forward proxy: ports that CONNECT may reach. `[]`: no tunnels.",
    ),
    setting(
        "http-ports",
        Kind::Own {
            form: "ports and ranges",
            default: "80, 443, 1024-65535",
            set: own::http_ports,
        },
        "Forward proxy: ports that all other requests may go to. A range leaves out the ports of line protocols (mail, IRC, SIP and the rest of what browsers refuse), for a request's body could be commands to such a server; one that is written as a number alone is allowed.",
    ),
    setting(
        "allow-destinations",
        Kind::Own {
            form: "`loopback`, `link-local`, networks",
            default: "`loopback` and `link-local` on a loopback listener, else none",
            set: own::allow_destinations,
        },
        "Forward proxy: addresses of this machine and of the link that may be reached. `loopback` is the whole machine, whatever address of its interfaces is named. All others may be, except the proxy's own listeners and multicast.",
    ),
    setting(
        "forwarded",
        Kind::Own {
            form: "`replace`, `append`, `none`",
            default: "`replace` on a reverse proxy, else `none`",
            set: own::forwarded,
        },
        "What origins are told of clients. `replace`: X-Forwarded-For, -Proto and -Host say what is known here; what the client sent of them, of other X-Forwarded fields, of X-Real-IP and Forwarded is dropped. (-Host only with `pass-host`: a host that is not part of the key must not get into what is stored.) They are no part of the key: an application that answers by them must say Vary, or a rule `key-fields`. `append`: for clients that are trusted proxies; the client's address is added to theirs. `none`: the client's fields pass as they come, and nothing is added.",
    ),
];

/// Settings of a `[[listener.route]]`.
pub const ROUTE: &[Setting<RouteDraft>] = &[
    setting(
        "host",
        Kind::Own {
            form: "a name, or `*.` and a name",
            default: "any host",
            set: own::route_host,
        },
        "Hosts it is for. `*.example.org` is every name below example.org, not that name itself.",
    ),
    setting(
        "path",
        Kind::Own {
            form: "begins with `/`",
            default: "/",
            set: own::route_path,
        },
        "Paths it is for: this one and all below it. Exact hosts come before `*.`, longer paths before shorter.",
    ),
    setting(
        "origin",
        Kind::Own {
            form: "`http://HOST[:PORT][/PATH]` or https",
            default: "required",
            set: own::route_origin,
        },
        "Where its requests go. A path here is put before the request's own.",
    ),
    setting(
        "pass-host",
        Kind::Switch(true, |r, on| r.pass_host = on),
        "Send the client's Host to the origin. `false`: the origin's own.",
    ),
];

/// The tables of a configuration file.
pub fn sections() -> impl Iterator<Item = &'static str> + Clone {
    let of_settings = TOP
        .iter()
        .filter_map(|row| Some(row.key.split_once('.')?.0));
    ["store", "listener", "rule"].into_iter().chain(of_settings)
}

/// A setting without a flag.
pub(crate) const fn setting<T>(key: &'static str, kind: Kind<T>, doc: &'static str) -> Setting<T> {
    Setting {
        key,
        flag: None,
        kind,
        doc,
    }
}

const fn flagged<T>(
    key: &'static str,
    flag: &'static str,
    kind: Kind<T>,
    doc: &'static str,
) -> Setting<T> {
    Setting {
        key,
        flag: Some(flag),
        kind,
        doc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_flags_are_unique() {
        let keys = |keys: Vec<&'static str>| {
            let set: std::collections::HashSet<_> = keys.iter().collect();
            assert_eq!(set.len(), keys.len());
        };
        keys(TOP.iter().map(|s| s.key).collect());
        let store = STORE
            .iter()
            .map(|s| format!("store.{}", s.key).leak() as &str);
        keys(store.chain(TOP.iter().map(|s| s.key)).collect());
        keys(LISTENER.iter().map(|s| s.key).collect());
        keys(ROUTE.iter().map(|s| s.key).collect());
        keys(
            TOP.iter()
                .filter_map(|s| s.flag)
                .chain(STORE.iter().filter_map(|s| s.flag))
                .chain(LISTENER.iter().filter_map(|s| s.flag))
                .collect(),
        );
    }
}
