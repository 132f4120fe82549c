import JSON

/// When something is to be taken.
public struct CarillonSchedule: Sendable, Equatable, Identifiable {
    /// Its id, for actions.
    public let id: String
    /// The time of day, such as `08:00`; nil: as needed.
    public let time: String?
    /// `daily`, `weekdays`, `custom` or `as_needed`.
    public let repeats: String
    /// The days of `custom`; 1 is Monday.
    public let repeatOn: [Int]
    /// How much.
    public let amount: String?
    /// False: it is paused.
    public let isEnabled: Bool
    /// Counts its changes.
    public let rev: Int64

    init(_ tree: JSONTree) {
        id = tree["id"]?.string ?? ""
        time = tree["time"]?.string
        repeats = tree["repeat"]?.string ?? "daily"
        repeatOn = tree["repeatOn"]?.elements.compactMap { $0.integer.map { Int($0) } } ?? []
        amount = tree["dose"]?.string
        isEnabled = tree["enabled"]?.flag ?? true
        rev = tree["rev"]?.integer ?? 0
    }
}

/// A medication of the user.
public struct CarillonMedication: Sendable, Equatable, Identifiable {
    /// Its id, for actions.
    public let id: String
    /// Its name.
    public let name: String
    /// Such as `5 mg`.
    public let strength: String?
    /// Such as `tablet`.
    public let form: String?
    /// `daily`, `twice_daily`, `weekly`, `as_needed`, or nil.
    public let frequency: String?
    /// Whether it is of the catalogue: its name is not the user's to change.
    public let isCatalogue: Bool
    /// Counts the changes of it and of its schedules.
    public let rev: Int64
    /// When it is taken.
    public let schedules: [CarillonSchedule]
    /// An action of this device on it is not confirmed yet.
    public let isPending: Bool
    /// A conflict about it waits for the person.
    public let hasConflict: Bool

    init(_ tree: JSONTree, isPending: Bool, hasConflict: Bool) {
        id = tree["id"]?.string ?? ""
        name = tree["name"]?.string ?? ""
        strength = tree["strength"]?.string
        form = tree["form"]?.string
        frequency = tree["frequency"]?.string
        isCatalogue = tree["isCatalogue"]?.flag ?? false
        rev = tree["rev"]?.integer ?? 0
        schedules = tree["schedules"]?.elements.map(CarillonSchedule.init) ?? []
        self.isPending = isPending
        self.hasConflict = hasConflict
    }
}

/// Medications that are taken together.
public struct CarillonStack: Sendable, Equatable, Identifiable {
    /// One of them.
    public struct Item: Sendable, Equatable {
        /// The product.
        public let productID: String
        /// How much of it.
        public let amount: String?
    }

    /// Its id, for actions.
    public let id: String
    /// Its name.
    public let name: String
    /// In their order.
    public let items: [Item]
    /// When it is taken.
    public let schedules: [CarillonSchedule]
    /// Counts the changes of it and of its schedules.
    public let rev: Int64
    /// An action of this device on it is not confirmed yet.
    public let isPending: Bool
    /// A conflict about it waits for the person.
    public let hasConflict: Bool

    init(_ tree: JSONTree, isPending: Bool, hasConflict: Bool) {
        id = tree["id"]?.string ?? ""
        name = tree["name"]?.string ?? ""
        items = (tree["items"]?.elements ?? []).map {
            Item(productID: $0["productId"]?.string ?? "", amount: $0["dose"]?.string)
        }
        schedules = tree["schedules"]?.elements.map(CarillonSchedule.init) ?? []
        rev = tree["rev"]?.integer ?? 0
        self.isPending = isPending
        self.hasConflict = hasConflict
    }
}

/// What the user takes.
public struct CarillonMedications: Sendable, Equatable {
    /// Without archived ones, oldest first.
    public let items: [CarillonMedication]
    /// Oldest first.
    public let stacks: [CarillonStack]
    /// The user's zone.
    public let timeZone: String
}
