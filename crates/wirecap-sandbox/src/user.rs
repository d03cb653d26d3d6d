//! The user of `-Z`: looked up at the start, and the user of each thread once that works.

use std::{ffi::CString, io};

use nix::unistd;
use wirecap_sys::confinement::{
    capabilities::{self, Capability},
    user::{UserIds, with_files_of},
};

/// A user that the process becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    pub(crate) ids: UserIds,
}

/// Why the process cannot become a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// No user has this name.
    #[error("there is no user {0}")]
    Unknown(String),
    /// This process is not root, or root of a container that may not.
    #[error("only root can become another user, with CAP_SETUID and CAP_SETGID")]
    NotPermitted,
    /// The list of users cannot be read.
    #[error("cannot look up the user {name}: {cause}")]
    LookUp {
        /// Its name.
        name: String,
        /// What the C library reports.
        cause: io::Error,
    },
}

impl User {
    /// Looks up a user that this process could become.
    ///
    /// # Errors
    /// Why it could not.
    pub fn look_up(name: &str) -> Result<Self, UserError> {
        let failed = |cause: io::Error| UserError::LookUp { name: name.into(), cause };
        let unknown = || UserError::Unknown(name.into());
        let c_name = CString::new(name).map_err(|_| unknown())?;
        let user =
            unistd::User::from_name(name).map_err(|errno| failed(errno.into()))?.ok_or_else(unknown)?;
        let effective = capabilities::effective().map_err(failed)?;
        if ![Capability::Setuid, Capability::Setgid].iter().all(|&capability| effective.has(capability)) {
            return Err(UserError::NotPermitted);
        }
        let groups = unistd::getgrouplist(&c_name, user.gid).map_err(|errno| failed(errno.into()))?;
        let groups = groups.into_iter().map(unistd::Gid::as_raw).collect();
        let ids = UserIds { user: user.uid.as_raw(), group: user.gid.as_raw(), groups };
        Ok(Self { name: name.into(), ids })
    }

    /// Does `work` with the access to files that this user has: the kernel refuses what the user may not
    /// open, and what is created belongs to the user.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn with_its_files<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        with_files_of(&self.ids, work)
    }
}

#[cfg(test)]
mod tests {
    use wirecap_lab::require_root;

    use super::*;

    #[test]
    fn a_user_is_found_by_name() {
        for unknown in ["no-such-user", "", "nobody\0"] {
            assert!(matches!(User::look_up(unknown), Err(UserError::Unknown(_))), "{unknown:?}");
        }
        if !require_root("a_user_is_found_by_name") {
            return;
        }
        let nobody = User::look_up("nobody").unwrap();
        assert_eq!((nobody.ids.user, nobody.name.as_str()), (65_534, "nobody"));
        assert!(nobody.ids.groups.contains(&nobody.ids.group), "{nobody:?}");
        let without = std::thread::spawn(|| {
            capabilities::keep_only([Capability::Setuid].into_iter().collect()).unwrap();
            User::look_up("nobody")
        });
        assert!(matches!(without.join().unwrap(), Err(UserError::NotPermitted)));
    }
}
