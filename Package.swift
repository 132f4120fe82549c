// swift-tools-version: 6.2
import PackageDescription

// Folders are layers, targets are the rooms in them. Both stand in the order of the map in Sources/README.md: a target
// imports only what stands above it.

// For what imports both Foundation and Glibc: which of the two modules a C structure such as `stat` belongs to depends
// on the order in which they were built, so no file can name the right one.
let mixedSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
]
let settings = mixedSettings + [.enableUpcomingFeature("MemberImportVisibility")]

// What the hub alone is built of: loop-owned classes. Each access to a property of theirs is checked for exclusivity at
// run time, eight times for one delivered event and at half its instructions; debug builds, and so all tests, keep the
// checks. Not for Values, which a client library may share: packages with unsafe flags cannot be depended upon.
let hubSettings = settings + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

/// A target of the hub: `folder` is its folder below Sources, the layer's and its own.
func room(
    _ folder: String, _ dependencies: [Target.Dependency] = [], settings: [SwiftSetting] = settings
) -> Target {
    .target(
        name: name(of: folder), dependencies: dependencies, path: "Sources/\(folder)",
        exclude: pages.contains(folder) ? ["README.md"] : [], swiftSettings: settings)
}

/// Targets that have a page for people beside their code.
let pages: Set = ["Clients/CarillonClient", "Values/Pusher", "Values/Sync"]

func system(_ name: String, _ library: String, _ package: String) -> Target {
    .systemLibrary(name: name, path: "Sources/System/\(name)", pkgConfig: library, providers: [.apt([package])])
}

/// What tests share.
func support(_ folder: String, _ dependencies: [Target.Dependency] = [], settings: [SwiftSetting] = settings) -> Target
{
    .target(name: name(of: folder), dependencies: dependencies, path: "Tests/\(folder)", swiftSettings: settings)
}

/// The tests of a target: `folder` is their folder below Tests, which mirrors Sources.
func tests(_ folder: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(
        name: name(of: folder), dependencies: dependencies, path: "Tests/\(folder)", swiftSettings: mixedSettings)
}

func name(of folder: String) -> String { String(folder.split(separator: "/").last ?? "") }

// What the hub alone needs of others stands behind a trait that is on by default. An app that uses a client library writes
// `traits: []`, and does not even fetch it.
func hubs(_ product: String, _ package: String) -> Target.Dependency {
    .product(name: product, package: package, condition: .when(traits: ["Hub"]))
}
let logging = hubs("Logging", "swift-log")
let tokens = hubs("JWTKit", "jwt-kit")
let arguments = hubs("ArgumentParser", "swift-argument-parser")
let histogram = hubs("Histogram", "hdrhistogram-swift")

// What only the client library needs: no product of the hub reaches it.
let database = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let network = ["NIOCore", "NIOPosix", "NIOHTTP1", "NIOWebSocket"].map {
    Target.Dependency.product(name: $0, package: "swift-nio")
}
let security = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")

let package = Package(
    name: "carillon",
    platforms: [.iOS(.v16), .macOS(.v13)],
    products: [
        .executable(name: "carillon", targets: ["carillon"]),
        .library(name: "CarillonClient", targets: ["CarillonClient"]),
        .library(name: "Notifications", targets: ["Notifications"]),
        .library(name: "Reminding", targets: ["Reminding"]),
    ],
    traits: [.default(enabledTraits: ["Hub"]), .trait(name: "Hub", description: "The hub, its tools and its tests")],
    // No Package.resolved is committed, so the next minor version of any comes by our choice alone.
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", .upToNextMinor(from: "1.8.0")),
        .package(url: "https://github.com/apple/swift-log", .upToNextMinor(from: "1.16.0")),
        .package(url: "https://github.com/vapor/jwt-kit", .upToNextMinor(from: "5.7.1")),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", .upToNextMinor(from: "0.2.0")),
        .package(url: "https://github.com/groue/GRDB.swift", .upToNextMinor(from: "7.10.0")),
        .package(url: "https://github.com/apple/swift-crypto", "3.12.0"..<"5.0.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.100.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
        // Documentation by DocC: a command, and nothing that is linked.
        .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.4.0"),
    ],
    targets: [
        // System: module maps and shims
        .target(name: "CLinux", path: "Sources/System/CLinux"),
        .target(name: "CWebClient", path: "Sources/System/CWebClient"),
        system("COpenSSL", "openssl", "libssl-dev"),
        system("CZlib", "zlib", "zlib1g-dev"),
        system("CPostgres", "libpq", "libpq-dev"),
        system("CCurl", "libcurl", "libcurl4-openssl-dev"),

        // Values: bytes in, values out
        room("Values/Bytes"),
        room("Values/Clock"),
        room("Values/Digests", ["Bytes", "COpenSSL"]),
        room("Values/JSON", ["Bytes"]),
        room("Values/RESP", ["Bytes"]),
        room("Values/HTTP", ["Bytes", "Clock"]),
        room("Values/WebSocket", ["Bytes", "CZlib", "Clock", "Digests", "HTTP"]),
        room("Values/Pusher", ["Bytes", "JSON", "Digests"]),
        room("Values/Sync", ["Bytes", "Clock", "JSON"]),
        room("Values/Care", ["Bytes", "JSON", "Sync"]),
        room("Values/Metrics", ["Bytes", "Clock"]),

        // Clients: what apps are built with
        room("Clients/Notifications"),
        room("Clients/Reminding", ["Care", "Notifications"]),
        room(
            "Clients/CarillonClient",
            ["Bytes", "Clock", "JSON", "Sync", "Care", database, crypto, security] + network),

        // Engine: values in, effects out
        room(
            "Engine/HubEngine", ["Bytes", "Clock", "JSON", "Metrics", "Pusher", "Sync"], settings: hubSettings),

        // Runtime: the system, as values and callbacks
        room("Runtime/Reactor", ["CLinux", "COpenSSL", "Bytes", "Clock"], settings: hubSettings),
        room(
            "Runtime/Postgres",
            ["Bytes", "CPostgres", "Clock", "Metrics", "Reactor", logging],
            settings: hubSettings),
        room(
            "Runtime/Redis",
            ["Bytes", "Clock", "RESP", "Reactor", logging],
            settings: hubSettings),

        // Data: what the hub asks of PostgreSQL and Redis
        room(
            "Data/Feed",
            [
                "Bytes", "Clock", "Metrics", "Sync", "Reactor", "Postgres",
                logging,
            ],
            settings: hubSettings),
        room(
            "Data/Store",
            [
                "Bytes", "Clock", "JSON", "Care", "Metrics", "Sync", "Reactor", "Postgres",
                logging,
            ],
            settings: hubSettings),

        room(
            "Data/Jobs",
            ["Clock", "Metrics", "Reactor", "Postgres", logging],
            settings: hubSettings),

        room(
            "Data/Outbox",
            ["Bytes", "Clock", "Metrics", "Reactor", "Postgres", logging],
            settings: hubSettings),

        room(
            "Data/Shared",
            ["Bytes", "Clock", "Digests", "HubEngine", "Metrics", "Pusher", "Reactor", "Redis", "RESP", logging],
            settings: hubSettings),

        // Edge: what the world touches
        room(
            "Edge/Identity",
            [
                "Bytes", "Clock", "JSON", "Metrics", "Sync", "Reactor",
                tokens, logging,
            ]),

        room(
            "Edge/Gateway",
            [
                "Bytes", "Clock", "JSON", "HTTP", "WebSocket", "Pusher", "Sync", "Metrics", "HubEngine", "Reactor",
                "Feed", "Shared",
                "Store", "Identity",
                logging,
            ], settings: hubSettings),
        room(
            "Edge/API",
            [
                "CWebClient", "Bytes", "Clock", "Digests", "JSON", "HTTP", "Pusher", "Sync", "Metrics", "HubEngine",
                "Reactor",
                "Shared", "Store",
                "Identity", "Gateway",
            ]),
        room(
            "Edge/Courier",
            [
                "CCurl", "CLinux", "Bytes", "Clock", "Digests", "JSON", "Pusher", "Sync", "Metrics", "HubEngine",
                "Reactor", "Outbox",
                logging,
            ]),
        room("Edge/Operations", ["Bytes", "Clock", "HTTP", "Metrics", "Reactor"]),
        room(
            "Edge/Console",
            [
                "Bytes", "HubEngine", "Clock", "Digests", "HTTP", "JSON", "Pusher", "Sync", "Reactor", "Shared",
                "Store",
                "Gateway",
                "API", "Operations",
                logging,
            ]),

        // The command
        .target(
            name: "SQLFiles", path: "sql",
            exclude: [
                "README.md", "migrations", "functions", "tests", "bench", "roles.sql", "bootstrap.sql", "demo.sql",
                "embed/generate",
            ], sources: ["embed"],
            publicHeadersPath: "embed/include"),
        .executableTarget(
            name: "carillon",
            dependencies: [
                "API", "HubEngine", "Console", "Courier", "Gateway", "Feed", "Store", "Jobs", "Outbox", "Identity",
                "Operations", "Postgres", "Reactor", "Redis", "Shared",
                "SQLFiles", "Bytes", "CLinux", "Clock", "Digests", "HTTP", "JSON", "Metrics", "Pusher", "Sync",
                "WebSocket",
                arguments,
                logging,
                tokens,
            ],
            swiftSettings: mixedSettings),

        // Beside them: what measures a hub from outside
        .executableTarget(
            name: "loadtest",
            dependencies: [
                "CLinux", "CPostgres", "Bytes", "Clock", "Digests", "JSON", "HTTP", "WebSocket", "Pusher", "Sync",
                "Reactor",
                "Postgres",
                arguments,
                histogram,
            ],
            path: "loadtest/Sources", swiftSettings: mixedSettings),

        .executableTarget(
            name: "corehub",
            dependencies: [
                "API", "Bytes", "HubEngine", "Feed", "Gateway", "HTTP", "Identity", "Pusher", "Reactor", "Sync",
                arguments,
                logging,
            ],
            path: "loadtest/Core", swiftSettings: mixedSettings),

        // What conformance suites judge: an echo on the hub's transport
        .executableTarget(
            name: "EchoServer",
            dependencies: [
                "Bytes", "Gateway", "HTTP", "Identity", "Reactor", "WebSocket",
                logging,
            ],
            path: "Tests/EchoServer", swiftSettings: mixedSettings),

        // What judges run as a device of the Swift library; it dies when told to
        .target(name: "CKillPoint", path: "Tests/CKillPoint"),
        .executableTarget(
            name: "ClientDevice", dependencies: ["CKillPoint", "CarillonClient"], path: "Tests/ClientDevice",
            swiftSettings: settings),

        // Tests: one target for each of the above, in the same order
        .target(name: "CDescriptorGuard", path: "Tests/CDescriptorGuard"),
        .target(name: "CLockCount", path: "Tests/CLockCount"),
        support(
            "TestSupport",
            ["CDescriptorGuard", "Clock", "Reactor", logging],
            settings: mixedSettings),
        support(
            "TestDatabase", ["CDescriptorGuard", "Postgres", "Reactor"],
            settings: mixedSettings),
        support(
            "TestRedis", ["Bytes", "CDescriptorGuard", "Clock", "RESP", "Reactor"],
            settings: mixedSettings),
        support(
            "TestHub",
            [
                "Bytes", "HubEngine", "Clock", "Feed", "Gateway", "HTTP", "Identity", "Metrics", "Postgres", "Pusher",
                "Reactor", "Redis", "Shared", "Store", "Sync", "TestDatabase", "TestRedis", "WebSocket",
                tokens, logging,
            ], settings: mixedSettings),
        .target(
            name: "FuzzProperties",
            dependencies: ["Bytes", "Digests", "HTTP", "HubEngine", "JSON", "Pusher", "RESP", "Sync", "WebSocket"],
            path: "Tests/Fuzz/Properties", swiftSettings: settings),
        tests("FuzzTests", ["FuzzProperties", "TestSupport"]),
        tests("Values/BytesTests", ["Bytes", "TestSupport"]),
        tests("Values/ClockTests", ["Clock", "TestSupport"]),
        tests("Values/DigestsTests", ["Bytes", "Digests"]),
        tests("Values/JSONTests", ["Bytes", "JSON", "TestSupport"]),
        tests("Values/RESPTests", ["Bytes", "FuzzProperties", "RESP", "TestSupport"]),
        tests("Values/HTTPTests", ["Bytes", "Clock", "HTTP", "TestSupport"]),
        tests("Values/WebSocketTests", ["Bytes", "Clock", "HTTP", "WebSocket", "TestSupport"]),
        tests("Values/PusherTests", ["Bytes", "JSON", "Pusher", "TestSupport"]),
        tests("Values/SyncTests", ["Bytes", "Clock", "JSON", "Sync", "TestSupport"]),
        tests("Values/CareTests", ["Bytes", "Care", "JSON", "Postgres", "TestDatabase", "TestSupport"]),
        tests("Values/MetricsTests", ["Metrics"]),
        tests("Clients/NotificationsTests", ["Notifications"]),
        tests("Clients/RemindingTests", ["Care", "Notifications", "Reminding"]),
        tests(
            "Clients/CarillonClientTests",
            [
                "API", "Bytes", "Care", "CarillonClient", "HubEngine", "Clock", "Feed", "Gateway", "Identity",
                "JSON", "Notifications", "Postgres",
                "Reactor", "Reminding", "Store", "Sync", "TestDatabase", "TestHub", "TestSupport", database, crypto,
                security,
            ]),
        tests(
            "Engine/HubEngineTests",
            ["Bytes", "HubEngine", "Clock", "FuzzProperties", "Pusher", "Sync", "TestSupport"]),
        tests("Runtime/ReactorTests", ["CDescriptorGuard", "COpenSSL", "Clock", "Reactor", "TestSupport"]),
        tests(
            "Runtime/PostgresTests",
            [
                "Bytes", "Clock", "Postgres", "Reactor", "TestDatabase", "TestSupport",
                logging,
            ]),
        tests(
            "Runtime/RedisTests",
            [
                "Bytes", "Clock", "RESP", "Reactor", "Redis", "TestRedis", "TestSupport",
                logging,
            ]),
        tests(
            "Data/FeedTests",
            [
                "Bytes", "Clock", "Sync", "Reactor", "Postgres", "Feed", "TestDatabase", "TestSupport",
                logging,
            ]),
        tests(
            "Data/StoreTests",
            [
                "Bytes", "Clock", "Metrics", "Sync", "Reactor", "Postgres", "Store", "TestDatabase", "TestSupport",
                logging,
            ]),
        tests(
            "Data/JobsTests",
            [
                "Clock", "Jobs", "Metrics", "Postgres", "Reactor", "TestDatabase", "TestSupport",
                logging,
            ]),
        tests(
            "Data/OutboxTests",
            [
                "Clock", "Metrics", "Outbox", "Postgres", "Reactor", "TestDatabase", "TestSupport",
                logging,
            ]),
        tests(
            "Data/SharedTests",
            [
                "Bytes", "Clock", "HubEngine", "Metrics", "Pusher", "Reactor", "Redis", "RESP", "Shared", "TestRedis",
                "TestSupport",
                logging,
            ]),
        tests(
            "Edge/IdentityTests",
            [
                "Clock", "Identity", "Sync", tokens,
                logging,
            ]),
        tests(
            "Edge/GatewayTests",
            [
                "Bytes", "CLockCount", "COpenSSL", "CZlib", "HubEngine", "Clock", "Feed", "Gateway", "HTTP", "Identity",
                "Metrics",
                "Postgres", "Pusher", "Reactor", "Store", "Sync", "TestDatabase", "TestHub", "TestSupport", "WebSocket",
                logging,
            ]),
        tests(
            "Edge/APITests",
            [
                "API", "Bytes", "HubEngine", "Clock", "Digests", "Feed", "Gateway", "HTTP", "Metrics", "Postgres",
                "Pusher",
                "Reactor", "Store", "Sync", "TestDatabase", "TestHub", "TestSupport",
            ]),
        tests(
            "Edge/CourierTests",
            [
                "Bytes", "CCurl", "HubEngine", "Clock", "Courier", "Digests", "JSON", "Metrics", "Outbox", "Pusher",
                "Reactor", "TestSupport",
                logging,
            ]),
        tests(
            "Edge/OperationsTests", ["Bytes", "Clock", "HTTP", "Metrics", "Operations", "Reactor", "TestSupport"]),
        tests(
            "Edge/ConsoleTests",
            [
                "API", "Bytes", "HubEngine", "Clock", "Console", "Feed", "Gateway", "HTTP", "JSON", "Operations",
                "Postgres",
                "Pusher", "Reactor", "Store", "Sync", "TestDatabase", "TestHub", "TestSupport",
                logging,
            ]),
        tests(
            "CarillonTests",
            [
                "carillon", "CDescriptorGuard", "Bytes", "HubEngine", "Clock", "Courier", "Feed", "Gateway", "HTTP",
                "Jobs", "Postgres", "Shared",
                "Store",
                "Sync",
                "TestSupport", "WebSocket",
                tokens, logging,
            ]),
        tests(
            "LoadtestTests",
            [
                "loadtest", "Bytes", "Clock", "Pusher", "Reactor", "TestSupport", "WebSocket",
                histogram,
            ]),
    ]
)
