//! The part of HTTP/1.1 that a scrape needs: one GET, one answer, and the connection is closed.
//!
//! Rule: a request is its first line and the header `Accept`; everything else in it is bounded by the server
//! and ignored. Anything else is answered with an error status.

use super::encoding::Format;

/// The only path.
const PATH: &str = "/metrics";

/// What was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MetricsRequest {
    pub(super) format: Format,
    /// Whether only the head of the answer is wanted.
    pub(super) head_only: bool,
}

/// A status with which a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    HeadTooLarge,
    Unavailable,
    VersionNotSupported,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// The length of the head of a request, once it is complete.
pub(super) fn head_len(input: &[u8]) -> Option<usize> {
    let ends = [b"\r\n\r\n".as_slice(), b"\n\n"];
    let end = |end: &[u8]| input.windows(end.len()).position(|window| window == end).map(|at| at + end.len());
    ends.into_iter().filter_map(end).min()
}

/// Parses the head of a request.
///
/// # Errors
/// The status with which it is answered.
pub(super) fn parse(head: &[u8]) -> Result<MetricsRequest, Status> {
    let head = std::str::from_utf8(head).map_err(|_| Status::BadRequest)?;
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Status::BadRequest);
    };
    let Some(version) = version.strip_prefix("HTTP/") else { return Err(Status::BadRequest) };
    if !version.starts_with("1.") {
        return Err(Status::VersionNotSupported);
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    if path(target) != PATH {
        return Err(Status::NotFound);
    }
    let headers = lines.filter_map(|line| line.split_once(':'));
    let accept = headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let types: Vec<_> = accept.map(|(_, value)| value.trim()).collect();
    Ok(MetricsRequest { format: Format::accepted(&types.join(",")), head_only })
}

/// The path of a target, which proxies write with its host in front: `http://host/metrics`.
fn path(target: &str) -> &str {
    let is_web = |scheme: &str| ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let target = match target.split_once("://") {
        Some((scheme, rest)) if is_web(scheme) => rest.find(['/', '?']).map_or("", |at| &rest[at..]),
        _ => target,
    };
    target.split('?').next().unwrap_or_default()
}

/// Whether the answer to this head has no body, whatever its status.
pub(super) fn is_head_only(head: &[u8]) -> bool {
    head.starts_with(b"HEAD ")
}

/// An answer with metrics.
pub(super) fn metrics(request: MetricsRequest, body: &str) -> Vec<u8> {
    answer(Status::Ok, request.format.media_type(), body, request.head_only)
}

/// An answer without.
pub(super) fn refusal(status: Status, head_only: bool) -> Vec<u8> {
    let text = match status {
        Status::NotFound => format!("the metrics are at {PATH}\n"),
        status => format!("{}\n", status.line()),
    };
    answer(status, "text/plain; charset=utf-8", &text, head_only)
}

fn answer(status: Status, media_type: &str, body: &str, head_only: bool) -> Vec<u8> {
    let allow = if status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        status.line(),
        body.len()
    );
    let body = if head_only { "" } else { body };
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_scrape_is_understood_and_anything_else_has_its_status() {
        let request = |format, head_only| Ok(MetricsRequest { format, head_only });
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", request(Format::PrometheusText, false)),
            ("GET /metrics HTTP/1.0\n\n", request(Format::PrometheusText, false)),
            ("GET /metrics?x=1 HTTP/1.1\r\n\r\n", request(Format::PrometheusText, false)),
            (
                "GET /metrics HTTP/1.1\r\naccept: text/plain\r\nACCEPT: application/openmetrics-text; version=1.0.0\r\n\r\n",
                request(Format::OpenMetrics, false),
            ),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", request(Format::PrometheusText, true)),
            ("GET http://h:9417/metrics HTTP/1.1\r\n\r\n", request(Format::PrometheusText, false)),
            ("GET HTTPS://h/metrics?x=1 HTTP/1.1\r\n\r\n", request(Format::PrometheusText, false)),
            ("GET http://h HTTP/1.1\r\n\r\n", Err(Status::NotFound)),
            ("GET http://h?x=/metrics HTTP/1.1\r\n\r\n", Err(Status::NotFound)),
            ("GET ftp://h/metrics HTTP/1.1\r\n\r\n", Err(Status::NotFound)),
            ("GET / HTTP/1.1\r\n\r\n", Err(Status::NotFound)),
            ("GET /metrics/x HTTP/1.1\r\n\r\n", Err(Status::NotFound)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Err(Status::MethodNotAllowed)),
            ("GET /metrics HTTP/2\r\n\r\n", Err(Status::VersionNotSupported)),
            ("GET /metrics\r\n\r\n", Err(Status::BadRequest)),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Err(Status::BadRequest)),
            ("\r\n\r\n", Err(Status::BadRequest)),
            ("GET /metrics FTP/1.1\r\n\r\n", Err(Status::BadRequest)),
        ] {
            assert_eq!(parse(head.as_bytes()), expected, "{head:?}");
            assert_eq!(head_len(head.as_bytes()), Some(head.len()));
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(Status::BadRequest));
        assert_eq!(head_len(b"GET /metrics HTTP/1.1\r\nA: b\r\n"), None);
    }

    #[test]
    fn an_answer_has_its_length_and_a_head_alone_has_no_body() {
        let text = |request| String::from_utf8(metrics(request, "x 1\n")).unwrap();
        let full = text(MetricsRequest { format: Format::OpenMetrics, head_only: false });
        assert!(full.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{full}");
        assert!(full.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\nx 1\n"), "{full}");
        let head = text(MetricsRequest { format: Format::OpenMetrics, head_only: true });
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let refused = String::from_utf8(refusal(Status::MethodNotAllowed, false)).unwrap();
        assert!(refused.contains("405 Method Not Allowed\r\n") && refused.contains("Allow: GET, HEAD\r\n"));
        let missing = "HEAD /unknown HTTP/1.1\r\n\r\n".as_bytes();
        let refused = refusal(parse(missing).unwrap_err(), is_head_only(missing));
        let refused = String::from_utf8(refused).unwrap();
        assert!(refused.contains("404 Not Found\r\n") && refused.ends_with("\r\n\r\n"), "{refused}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (head_len(&bytes), parse(&bytes));
        }
    }
}
