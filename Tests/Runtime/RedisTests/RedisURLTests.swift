import Testing
@testable import Redis
