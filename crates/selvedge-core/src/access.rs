//! Roles of API keys, and the permissions of each role.
//!
//! Every route of the server declares the [`Permission`] that it requires. [`Role::has`] is the only place that grants
//! permissions.

/// The permission that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Requires no key: health, documentation, and calls that are authorised by the token of a waitpoint.
    Open,
    /// Reading in a namespace.
    Read,
    /// Submitting executions and flows, growing flows, and sending signals.
    Submit,
    /// Claiming, renewing leases, and reporting.
    Work,
    /// Every other change in a namespace.
    Operate,
    /// Managing the API keys and settings of the caller's namespaces.
    Administer,
    /// Managing the whole server, and seeing the names of all namespaces. The server grants it only to keys of every namespace.
    AdministerServer,
}

impl Permission {
    pub const ALL: [Permission; 7] = [
        Self::Open,
        Self::Read,
        Self::Submit,
        Self::Work,
        Self::Operate,
        Self::Administer,
        Self::AdministerServer,
    ];

    /// Returns the name of the permission.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Work => "work",
            Self::Operate => "operate",
            Self::Administer => "administer",
            Self::AdministerServer => "administer the whole server",
        }
    }
}

/// The role of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// May read.
    Reader,
    /// May read, submit, grow flows and send signals.
    Submitter,
    /// May do what a submitter may, and claim and report as a worker.
    Worker,
    /// May read and change everything in its namespaces.
    Operator,
    /// May do everything, including the administration of the server.
    Admin,
}

impl Role {
    pub const ALL: [Role; 5] = [Self::Reader, Self::Submitter, Self::Worker, Self::Operator, Self::Admin];

    /// Returns the role's name in requests, responses and rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Submitter => "submitter",
            Self::Worker => "worker",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Returns the role with this name.
    pub fn parse(word: &str) -> Option<Role> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }

    /// Reports whether the role has a permission.
    pub fn has(self, permission: Permission) -> bool {
        match permission {
            Permission::Open | Permission::Read => true,
            Permission::Submit => match self {
                Self::Reader => false,
                Self::Submitter | Self::Worker | Self::Operator | Self::Admin => true,
            },
            Permission::Work => match self {
                Self::Reader | Self::Submitter => false,
                Self::Worker | Self::Operator | Self::Admin => true,
            },
            Permission::Operate => match self {
                Self::Reader | Self::Submitter | Self::Worker => false,
                Self::Operator | Self::Admin => true,
            },
            Permission::Administer | Permission::AdministerServer => self == Self::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_the_permissions_that_the_api_promises() {
        let granted = |role: Role| {
            let granted = Permission::ALL.into_iter().filter(|permission| role.has(*permission));
            granted.map(Permission::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(granted(Role::Reader), "open read");
        assert_eq!(granted(Role::Submitter), "open read submit");
        assert_eq!(granted(Role::Worker), "open read submit work");
        assert_eq!(granted(Role::Operator), "open read submit work operate");
        assert_eq!(
            granted(Role::Admin),
            "open read submit work operate administer administer the whole server"
        );
    }

    #[test]
    fn a_role_is_parsed_from_its_name() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("root"), None);
    }
}
