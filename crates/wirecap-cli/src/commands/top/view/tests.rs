//! Screens, character by character.

use ratatui::{Terminal, backend::TestBackend};

use super::{super::history::tests::report, *};

const PLAIN: Look = Look { colours: false, unicode: false };

/// What is on a screen of this size.
fn screen(columns: u16, rows: u16, view: &View<'_>) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| frame.render_widget(view, frame.area())).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row =
        |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..rows).map(row).collect()
}

fn view(history: &History, now: Instant) -> View<'_> {
    View {
        history,
        look: PLAIN,
        now,
        interval: Duration::from_millis(500),
        is_own: false,
        is_paused: false,
        scrolled: 0,
        message: None,
    }
}

/// Two reports, half a second apart, with losses in between.
fn history(now: Instant) -> History {
    let mut history = History::default();
    history.add(report(10.0, 100_000, 5), now);
    history.add(report(10.5, 125_000, 8), now);
    history
}

#[test]
fn a_screen_of_80_by_24_has_everything() {
    let now = Instant::now();
    let history = history(now);
    let expected = "\
wirecap top  eth1  (capture 4711, uplink)  running  T 60 %
10 s  100.00 kpps  80.00 Mbit/s  lost 8  pool 40 % (peak 80 %)
250000 packets to x.pcapng: 25.0MB, 1 file
packets per second in two minutes, at most 100.00 kpps
                                                                               #
                                                                               #
port        queue mode        seen/s   lost/s        lost  pool
eth1            0 packed       50.0k        0           0  ..........   0 %
eth1            1 packed       50.0k        6           8  ####...|..  40 %
worker  core packets/s    Mbit/s                  who helps whom, and in all
     0     -     50.0k      40.0                  1 helps 0: 5.00k/s, 12.5k
     1     -     50.0k      40.0
       lost  cause              where                last
          8  no_free_block      eth1, queue 1        now, 3
talkers, of a sample of 4 packets                 protocols, by bytes
100 %  192.0.2.1 > 192.0.2.2                       75 %  tcp 443
                                                   25 %  arp






q quits, the capture goes on  p pauses  arrows scroll  every 500 ms
";
    assert_eq!(screen(80, 24, &view(&history, now)), expected);
    assert!(screen(80, 24, &view(&history, now + Duration::from_secs(90))).contains("90 s ago, 3"));
}

#[test]
fn packets_in_deleted_files_are_lost() {
    let now = Instant::now();
    let mut history = History::default();
    let mut report = report(10.0, 100_000, 0);
    report.account.written.as_mut().unwrap().deleted = 300;
    history.add(report, now);
    let screen = screen(80, 24, &view(&history, now));
    let line = "200000 packets (300 lost in deleted files) to x.pcapng: 20.0MB, 1 file\n";
    assert!(screen.contains(line), "{screen}");
}

#[test]
fn an_output_that_failed_is_named() {
    let now = Instant::now();
    let mut history = History::default();
    let mut report = report(10.0, 100_000, 0);
    report.account.written.as_mut().unwrap().failed_outputs = 1;
    history.add(report, now);
    let screen = screen(80, 24, &view(&history, now));
    assert!(screen.contains("writing failed: 200000 packets to x.pcapng: 20.0MB, 1 file\n"), "{screen}");
}

#[test]
fn what_has_no_room_is_missing_as_whole_rows_from_the_bottom() {
    let wanted = Rows { queues: 16, workers: 8, losses: 1, sample: 20 };
    let rows = |queues, workers, losses, sample| Rows { queues, workers, losses, sample };
    assert_eq!(Rows::of(24, wanted), rows(5, 3, 1, 3));
    assert_eq!(Rows::of(60, wanted), rows(16, 8, 1, 20));
    assert_eq!(Rows::of(18, wanted), rows(5, 3, 0, 0));
    assert_eq!(Rows::of(12, wanted), rows(3, 0, 0, 0));
    assert_eq!(Rows::of(8, wanted), Rows::default());
    // Never more rows than the screen has, at any size.
    let now = Instant::now();
    let history = history(now);
    for (columns, height) in [(80, 24), (200, 60), (40, 10), (20, 3), (1, 1), (80, 8), (5, 40)] {
        for look in [PLAIN, Look { colours: true, unicode: true }] {
            screen(columns, height, &View { look, ..view(&history, now) });
            screen(columns, height, &View { look, ..view(&History::default(), now) });
        }
    }
}

#[test]
fn queues_that_have_no_room_are_counted_and_scrolled_to() {
    assert_eq!(window(4, 4, 9), (0, None));
    assert_eq!(window(16, 5, 0), (0, Some("(1 to 5 of 16)".into())));
    assert_eq!(window(16, 5, 3), (3, Some("(4 to 8 of 16)".into())));
    assert_eq!(window(16, 5, usize::MAX), (11, Some("(12 to 16 of 16)".into())));
}

#[test]
fn sixty_four_queues_on_80_by_24_are_counted_where_they_have_no_room() {
    let now = Instant::now();
    let mut history = History::default();
    let mut report = report(10.0, 100_000, 0);
    let queue = report.account.ports[0].queues[0].clone();
    let queues = (0..64).map(|number| Queue { queue: number, ..queue.clone() });
    report.account.ports[0].queues = queues.collect();
    report.account.workers = vec![report.account.workers[0].clone(); 64];
    report.offloads = (1..64).map(|helper| Offload { home: 0, helper, packets: 5 }).collect();
    history.add(report, now);
    let screen = screen(80, 24, &view(&history, now));
    for words in ["(1 to 6 of 64)", "(1 to 3 of 64)", "2 helps 0: ", "... and 61 more lines"] {
        assert!(screen.contains(words), "no {words:?} in\n{screen}");
    }
    assert!(screen.contains("q quits, the capture goes on"), "{screen}");
}

#[test]
fn figures_have_three_digits_and_a_unit() {
    for (figure, text) in [
        (0.0, "0"),
        (999.0, "999"),
        (999.6, "1.00k"),
        (1_000.0, "1.00k"),
        (9_994.0, "9.99k"),
        (9_996.0, "10.0k"),
        (99_940.0, "99.9k"),
        (99_960.0, "100k"),
        (999_400.0, "999k"),
        (999_600.0, "1.00M"),
        (14_880_952.0, "14.9M"),
        (1e9, "1.00G"),
    ] {
        assert_eq!(short(figure), text, "{figure}");
    }
}

#[test]
fn the_bar_of_a_pool_has_its_peak() {
    for (used, peak, bar) in [
        (0.0, 0.0, ".........."),
        (0.0, 100.0, ".........|"),
        (30.0, 30.0, "###......."),
        (30.0, 80.0, "###....|.."),
        (100.0, 100.0, "##########"),
        (250.0, 300.0, "##########"),
    ] {
        assert_eq!(gauge(PLAIN, used, peak), bar);
    }
}

#[test]
fn foreign_names_cannot_write_elsewhere() {
    let now = Instant::now();
    let mut evil = report(1.0, 10, 0);
    evil.status.output = Some("x\u{1b}[2Jy".into());
    evil.account.ports[0].name = "a\nb".into();
    let mut history = History::default();
    history.add(evil, now);
    let screen = screen(100, 24, &view(&history, now));
    assert!(screen.contains("x\\u{1b}[2Jy") && screen.contains("a\\nb"), "{screen}");
}

#[test]
fn colours_are_used_only_where_they_are_wanted() {
    let now = Instant::now();
    let history = history(now);
    let colours = |colours| {
        let look = Look { colours, unicode: true };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let view = View { look, ..view(&history, now) };
        terminal.draw(|frame| frame.render_widget(&view, frame.area())).unwrap();
        let buffer = terminal.backend().buffer().clone();
        buffer.content().iter().filter(|cell| cell.fg != ratatui::style::Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 20);
}

#[test]
fn eighty_columns_have_room_for_large_figures() {
    let (mut history, now) = (History::default(), Instant::now());
    let mut last = report(86_390.0, 0, 0);
    history.add(last.clone(), now);
    last.account.seconds = 86_400.0 * 99.0;
    last.account.workers[0].packets = 14_880_952 * (86_400 * 99 - 86_390);
    last.account.workers[0].bytes = 1_250_000_000 * (86_400 * 99 - 86_390);
    last.status.lost = 999_999_999;
    last.account.ports[0].queues[1].pool_used_percent = 100.0;
    last.account.ports[0].queues[1].pool_peak_percent = 100.0;
    history.add(last, now);
    let shown = screen(80, 24, &view(&history, now));
    let row = "99 days 0 h  14.88 Mpps  10.00 Gbit/s  lost 999999999  pool 100 % (peak 100 %)";
    assert_eq!(shown.lines().nth(1), Some(row));
}
