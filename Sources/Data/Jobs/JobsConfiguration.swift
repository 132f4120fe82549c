import Clock

/// The settings of the jobs.
package struct JobsConfiguration: Sendable {
    /// The hub's connection string; its role must be allowed to execute the hub functions.
    package var connectionString: String
    /// How long connecting may take.
    package var connectTimeout = Duration.seconds(10)
    /// The approximate time between two looks for doses to be missed.
    package var missInterval = Duration.seconds(1)
    /// The approximate time between two looks for due reminders.
    package var fireInterval = Duration.seconds(1)
    /// The approximate time between two looks for schedules to be planned.
    package var planInterval = Duration.seconds(60)
    /// The approximate time between two looks for changed products.
    package var spreadInterval = Duration.seconds(5)
    /// Days after which events are deleted; 0 turns retention off in this hub.
    package var retainDays = 7
    /// The approximate time from the start to the first deletion.
    package var retainDelay = Duration.seconds(60)
    /// The approximate time between two deletions.
    package var retainInterval = Duration.seconds(3_600)

    /// The defaults, for the database of a libpq connection string.
    package init(connectionString: String) {
        self.connectionString = connectionString
    }

    /// The jobs that this hub runs, each with the time between its runs.
    var jobs: [(job: Job, interval: Duration)] {
        Job.allCases.compactMap { job in
            switch job {
            case .planDoses: (job, planInterval)
            case .missDoses: (job, missInterval)
            case .fireReminders: (job, fireInterval)
            case .spreadProducts: (job, spreadInterval)
            case .retainEvents, .retainActions, .retainFeedback: retainDays > 0 ? (job, retainInterval) : nil
            }
        }
    }
}
