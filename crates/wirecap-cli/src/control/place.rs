//! Where control sockets are: found by clients, made by captures, and removed.
//!
//! ```text
//!   root              /run/wirecap/PID.sock                 directory 0750 root:wirecap, or 0700 without such a group
//!   a service         $RUNTIME_DIRECTORY/PID.sock           as systemd has made it, beneath /run/wirecap by our units
//!   any other user    $XDG_RUNTIME_DIR/wirecap/PID.sock     directory 0700
//! ```
//!
//! Rule: a socket appears under its name only once it accepts connections. One that refuses them was
//! therefore left over by a killed process, and the next capture removes it.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail, ensure};
use nix::unistd::{Group, getegid, geteuid};

use super::{access::SocketOwner, connect};
use crate::{serve::endpoint::Listener, text::error::directory_hint};

/// The directory of root's captures.
const SYSTEM: &str = "/run/wirecap";
/// The directories of services with the units in `dist/systemd`: subdirectories, since systemd gives each to
/// the user of its unit.
const OF_SERVICES: [&str; 2] = ["/run/wirecap/capture", "/run/wirecap/forward"];
/// The group whose members may control them.
const GROUP: &str = "wirecap";
/// The most left-over sockets that one start checks.
const MAX_LOOKED_AT: usize = 1_000;
/// The mode of a directory whose sockets the group may use.
const GROUP_MODE: u32 = 0o750;
/// The mode of a socket.
const SOCKET_MODE: u32 = 0o660;

/// A control socket that accepts connections. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: Listener,
    pub(super) owner: SocketOwner,
    path: PathBuf,
    /// Distinguishes it from another socket of the same name.
    inode: u64,
}

/// Where the captures of root, of services and of this user have their sockets.
pub(crate) fn directories() -> Vec<PathBuf> {
    let own = of_user(env::var_os("XDG_RUNTIME_DIR"));
    [SYSTEM].into_iter().chain(OF_SERVICES).map(PathBuf::from).chain(own).collect()
}

/// What a user does whom the captures of others are hidden from.
pub(crate) const REMEDY_FOR_HIDDEN: &str = "use sudo, or become a member of the group wirecap";

/// Those of them that this user cannot read, without those beneath another one.
pub(crate) fn hidden_directories() -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = Vec::new();
    for directory in directories() {
        let is_hidden =
            || fs::read_dir(&directory).is_err_and(|cause| cause.kind() == ErrorKind::PermissionDenied);
        if !hidden.iter().any(|other| directory.starts_with(other)) && is_hidden() {
            hidden.push(directory);
        }
    }
    hidden
}

/// The directory beneath that of `XDG_RUNTIME_DIR`, which is ignored if it is empty or relative, as its
/// specification says.
fn of_user(runtime_directory: Option<OsString>) -> Option<PathBuf> {
    let directory = runtime_directory.map(PathBuf::from).filter(|directory| directory.is_absolute())?;
    Some(directory.join("wirecap"))
}

/// The directory of this process.
fn own_directory() -> Result<PathBuf> {
    // The first one, if a unit has several.
    let of_service = env::var_os("RUNTIME_DIRECTORY")
        .and_then(|paths| env::split_paths(&paths).find(|path| path.is_absolute()));
    if geteuid().is_root() {
        // Clients do not search other directories.
        let is_ours = |path: &PathBuf| OF_SERVICES.iter().any(|ours| path == Path::new(ours));
        return Ok(of_service.filter(is_ours).unwrap_or(SYSTEM.into()));
    }
    of_service
        .or_else(|| of_user(env::var_os("XDG_RUNTIME_DIR")))
        .ok_or_else(|| anyhow!("XDG_RUNTIME_DIR names no directory"))
}

impl ControlSocket {
    /// Makes the socket of this process where clients look for it.
    ///
    /// # Errors
    /// There is no such directory, or it is not safe.
    pub(super) fn usual() -> Result<Self> {
        let (directory, group) = (own_directory()?, socket_group());
        make_directory(&directory, group)?;
        if let Some(gid) = group.filter(|_| geteuid().is_root() && directory == Path::new(SYSTEM)) {
            open_to_group(&directory, gid);
        }
        remove_left_over(&directory);
        Self::bind(&directory.join(format!("{}.sock", std::process::id())), group)
    }

    /// Makes the socket that the user has named.
    ///
    /// # Errors
    /// Another file or capture has this name, or the directory cannot be written.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        Self::bind(path, socket_group())
    }

    fn bind(path: &Path, group: Option<u32>) -> Result<Self> {
        let name = path.display();
        if let Ok(metadata) = path.symlink_metadata() {
            ensure!(
                metadata.file_type().is_socket(),
                "{name} exists and is not a socket; choose another name"
            );
            ensure!(connect::is_left_over(path), "{name} is the socket of another program that runs");
        }
        let cannot = |cause: io::Error| {
            // The kernel takes 107 bytes, and the new socket has a longer name than the old one.
            let hint = match cause.kind() {
                ErrorKind::InvalidInput => "; choose a shorter name".into(),
                _ => directory_hint(path, &cause),
            };
            anyhow!("cannot make the socket {name}: {cause}{hint}")
        };
        // Renamed once it accepts connections: one that refuses them counts as left over.
        let new = path.with_file_name(format!(".{}.{}.new", file_name(path), std::process::id()));
        let _ = fs::remove_file(&new);
        let listener = UnixListener::bind(&new).map_err(cannot)?;
        let gid = group.filter(|&gid| chown(&new, None, Some(gid)).is_ok());
        let finish = || {
            fs::set_permissions(&new, fs::Permissions::from_mode(SOCKET_MODE))?;
            listener.set_nonblocking(true)?;
            fs::rename(&new, path)?;
            path.symlink_metadata()
        };
        let metadata = finish().inspect_err(|_| _ = fs::remove_file(&new)).map_err(cannot)?;
        let owner = SocketOwner { uid: geteuid().as_raw(), gid };
        Ok(Self { listener: Listener::Unix(listener), owner, path: path.into(), inode: metadata.ino() })
    }

    /// Its directory.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// Where clients connect. It does not block.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let is_own =
            |metadata: fs::Metadata| metadata.ino() == self.inode && metadata.file_type().is_socket();
        if self.path.symlink_metadata().is_ok_and(is_own) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The group whose members may control captures of this process, if it may give files to that group.
fn socket_group() -> Option<u32> {
    let may_give = |gid: &u32| geteuid().is_root() || getegid().as_raw() == *gid;
    Group::from_name(GROUP).ok().flatten().map(|group| group.gid.as_raw()).filter(may_give)
}

/// Makes the directory, or checks the one that is there: no other user may put sockets into it.
fn make_directory(directory: &Path, group: Option<u32>) -> Result<()> {
    let name = directory.display();
    let mode = if group.is_some() { GROUP_MODE } else { 0o700 };
    match fs::DirBuilder::new().mode(mode).create(directory) {
        Ok(()) => {
            // Without CAP_CHOWN it stays root's, like the socket.
            let _ = group.map(|gid| chown(directory, None, Some(gid)));
            return Ok(());
        }
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
        Err(cause) => bail!("cannot make the directory {name}: {cause}{}", directory_hint(directory, &cause)),
    }
    let metadata = directory.symlink_metadata().map_err(|cause| anyhow!("cannot look at {name}: {cause}"))?;
    let is_safe = metadata.is_dir()
        && [0, geteuid().as_raw()].contains(&metadata.uid())
        && metadata.permissions().mode() & 0o002 == 0;
    ensure!(
        is_safe,
        "{name} is not safe: it must be a directory of root or of this user that others cannot write"
    );
    Ok(())
}

/// Admits the group to a directory of this user that others cannot enter: it may have been made before there
/// was such a group. Fails without CAP_CHOWN; then the sockets stay this user's, too.
fn open_to_group(directory: &Path, gid: u32) {
    let Ok(metadata) = directory.symlink_metadata() else { return };
    let is_closed = metadata.permissions().mode() & 0o005 == 0;
    if metadata.uid() == geteuid().as_raw() && is_closed && chown(directory, None, Some(gid)).is_ok() {
        let _ = fs::set_permissions(directory, fs::Permissions::from_mode(GROUP_MODE));
    }
}

/// Removes the sockets of captures that were killed.
fn remove_left_over(directory: &Path) {
    for path in sockets(directory).unwrap_or_default() {
        if connect::is_left_over(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

/// The control sockets in a directory.
///
/// # Errors
/// It cannot be read.
pub(crate) fn sockets(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_socket = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "sock") && !file_name(path).starts_with('.')
    };
    let paths = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(is_socket).take(MAX_LOOKED_AT).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_a_killed_process_is_replaced_and_a_live_one_or_a_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.sock");
        let socket = ControlSocket::at(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, SOCKET_MODE);
        let error = ControlSocket::at(&path).unwrap_err().to_string();
        assert!(error.contains("of another program that runs"), "{error}");
        // Without its destructor, as in a process that is killed.
        let Listener::Unix(listener) = &socket.listener else { unreachable!() };
        let listener = listener.try_clone().unwrap();
        let inode = socket.inode;
        std::mem::forget(socket);
        drop(listener);
        assert!(path.exists());
        // The listener that was forgotten still accepts: a left-over socket has none.
        let left_over = directory.path().join("2.sock");
        drop(UnixListener::bind(&left_over).unwrap());
        assert!(connect::is_left_over(&left_over));
        remove_left_over(directory.path());
        assert!(!left_over.exists() && path.exists(), "{inode}");
        fs::write(directory.path().join("3.sock"), "").unwrap();
        let error = ControlSocket::at(&directory.path().join("3.sock")).unwrap_err().to_string();
        assert!(error.contains("is not a socket"), "{error}");
    }

    #[test]
    fn a_socket_is_removed_at_the_end_but_not_one_that_has_taken_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.sock");
        drop(ControlSocket::at(&path).unwrap());
        assert!(!path.exists());
        let socket = ControlSocket::at(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists(), "{other:?}");
    }

    #[test]
    fn a_directory_that_was_made_before_the_group_is_opened_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        let mode = || own.metadata().unwrap().permissions().mode() & 0o777;
        make_directory(&own, None).unwrap();
        open_to_group(&own, getegid().as_raw());
        assert_eq!(mode(), GROUP_MODE);
        // One that everyone may enter stays as it is.
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        open_to_group(&own, getegid().as_raw());
        assert_eq!(mode(), 0o755);
    }

    #[test]
    fn an_empty_or_relative_runtime_directory_is_none() {
        assert_eq!(of_user(Some("/run/user/1".into())), Some("/run/user/1/wirecap".into()));
        for ignored in [None, Some(""), Some("run")] {
            assert_eq!(of_user(ignored.map(Into::into)), None, "{ignored:?}");
        }
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        fs::create_dir(&open).unwrap();
        make_directory(&open, None).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_directory(&open, None).unwrap_err().to_string().contains("is not safe"));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert!(make_directory(&link, None).is_err());
        let made = directory.path().join("made");
        make_directory(&made, None).unwrap();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
}
