// swift-tools-version: 6.2
import PackageDescription

// Targets are layers, in the order of the map in Sources/README.md: a target imports only what stands above it.

// For what imports both Foundation and Glibc: which of the two modules a C structure such as `stat` belongs to depends
// on the order in which they were built, so no file can name the right one.
let mixedSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
]
let settings = mixedSettings + [.enableUpcomingFeature("MemberImportVisibility")]

// What the hub alone is built of: loop-owned classes. Each access to a property of theirs is checked for exclusivity at
// run time, eight times for one delivered event and at half its instructions; debug builds, and so all tests, keep the
// checks. Not for layer 1, which a client library may share: packages with unsafe flags cannot be depended upon.
let hubSettings = settings + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

func layer(
    _ name: String, _ dependencies: [Target.Dependency] = [], path: String? = nil, settings: [SwiftSetting] = settings
) -> Target {
    .target(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: mixedSettings)
}

let package = Package(
    name: "carillon",
    products: [
        .executable(name: "carillon", targets: ["carillon"])
    ],
    // No Package.resolved is committed, so the next minor version of any comes by our choice alone.
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", .upToNextMinor(from: "1.8.0")),
        .package(url: "https://github.com/apple/swift-configuration", .upToNextMinor(from: "1.4.0")),
        .package(url: "https://github.com/apple/swift-log", .upToNextMinor(from: "1.16.0")),
        .package(url: "https://github.com/vapor/jwt-kit", .upToNextMinor(from: "5.7.1")),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", .upToNextMinor(from: "0.2.0")),
    ],
    targets: [
        // 0: the system
        .target(name: "CLinux"),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),

        // 1: bytes in, values out
        layer("Bytes"),
        layer("Digests", ["Bytes", "COpenSSL"]),
        layer("JSON", ["Bytes"]),
        layer("HTTP", ["Bytes"]),
        layer("WebSocket", ["Bytes", "CZlib", "Digests", "HTTP"]),
        layer("Pusher", ["Bytes", "JSON", "Digests"]),
        layer("Sync", ["Bytes", "JSON"]),
        layer("Care", ["Bytes", "JSON", "Sync"]),
        layer("Metrics", ["Bytes"]),

        // 2: the engine
        layer("Channels", ["Bytes", "JSON", "Metrics", "Pusher", "Sync", "WebSocket"], settings: hubSettings),

        // 3: the system, as values and callbacks
        layer("Reactor", ["CLinux", "COpenSSL"], settings: hubSettings),
        layer(
            "Postgres", ["Bytes", "CPostgres", "Metrics", "Reactor", .product(name: "Logging", package: "swift-log")],
            settings: hubSettings),

        // 4: what the hub asks of others
        layer(
            "Feed",
            ["Bytes", "Metrics", "Sync", "Reactor", "Postgres", .product(name: "Logging", package: "swift-log")],
            settings: hubSettings),
        layer(
            "Store",
            [
                "Bytes", "JSON", "Care", "Metrics", "Sync", "Reactor", "Postgres",
                .product(name: "Logging", package: "swift-log"),
            ],
            settings: hubSettings),
        layer(
            "Identity",
            [
                "Bytes", "JSON", "Metrics", "Sync", "Reactor",
                .product(name: "JWTKit", package: "jwt-kit"), .product(name: "Logging", package: "swift-log"),
            ]),

        // 5: connections and routes
        layer(
            "Gateway",
            [
                "Bytes", "JSON", "HTTP", "WebSocket", "Pusher", "Sync", "Metrics", "Channels", "Reactor", "Feed",
                "Store", "Identity",
                .product(name: "Logging", package: "swift-log"),
            ], settings: hubSettings),
        layer(
            "API",
            [
                "Bytes", "Digests", "JSON", "HTTP", "Pusher", "Sync", "Metrics", "Channels", "Reactor", "Store",
                "Identity", "Gateway",
            ]),
        layer(
            "Courier",
            [
                "CCurl", "CLinux", "Bytes", "JSON", "Pusher", "Metrics", "Channels", "Reactor",
                .product(name: "Logging", package: "swift-log"),
            ]),
        layer("Operations", ["Bytes", "HTTP", "Metrics", "Reactor"]),

        // 6: the command
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
                "API", "Channels", "Courier", "Gateway", "Feed", "Store", "Identity", "Operations", "Postgres",
                "Reactor",
                "SQLFiles", "Bytes", "CLinux", "Digests", "HTTP", "JSON", "Metrics", "Pusher", "Sync", "WebSocket",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "JWTKit", package: "jwt-kit"),
            ],
            swiftSettings: mixedSettings),

        // Beside them: what measures a hub from outside
        .executableTarget(
            name: "loadtest",
            dependencies: [
                "CLinux", "CPostgres", "Bytes", "Digests", "JSON", "HTTP", "WebSocket", "Pusher", "Sync", "Reactor",
                "Postgres",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
            ],
            path: "loadtest/Sources", swiftSettings: mixedSettings),

        .executableTarget(
            name: "corehub",
            dependencies: [
                "API", "Bytes", "Channels", "Feed", "Gateway", "HTTP", "Identity", "Pusher", "Reactor", "Sync",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "loadtest/Core", swiftSettings: mixedSettings),

        // What conformance suites judge: an echo on the hub's transport
        .executableTarget(
            name: "EchoServer",
            dependencies: [
                "Bytes", "Gateway", "HTTP", "Identity", "Reactor", "WebSocket",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/EchoServer", swiftSettings: mixedSettings),

        // Tests: one target for each of the above, in the same order
        .target(name: "CDescriptorGuard", path: "Tests/CDescriptorGuard"),
        .target(name: "CLockCount", path: "Tests/CLockCount"),
        layer("TestSupport", ["CDescriptorGuard", "Reactor"], path: "Tests/TestSupport", settings: mixedSettings),
        layer(
            "TestDatabase", ["CDescriptorGuard", "Postgres", "Reactor"], path: "Tests/TestDatabase",
            settings: mixedSettings),
        layer(
            "FuzzProperties", ["Bytes", "Digests", "HTTP", "JSON", "Pusher", "Sync", "WebSocket"],
            path: "Tests/Fuzz/Properties"),
        tests("FuzzTests", ["FuzzProperties", "TestSupport"]),
        tests("BytesTests", ["Bytes", "TestSupport"]),
        tests("DigestsTests", ["Bytes", "Digests"]),
        tests("JSONTests", ["Bytes", "JSON", "TestSupport"]),
        tests("HTTPTests", ["Bytes", "HTTP", "TestSupport"]),
        tests("WebSocketTests", ["Bytes", "HTTP", "WebSocket", "TestSupport"]),
        tests("PusherTests", ["Bytes", "JSON", "Pusher", "TestSupport"]),
        tests("SyncTests", ["Bytes", "JSON", "Sync", "TestSupport"]),
        tests("CareTests", ["Bytes", "Care", "Postgres", "TestDatabase", "TestSupport"]),
        tests("MetricsTests", ["Metrics"]),
        tests("ChannelsTests", ["Bytes", "Channels", "Pusher", "Sync", "TestSupport"]),
        tests("ReactorTests", ["CDescriptorGuard", "COpenSSL", "Reactor", "TestSupport"]),
        tests("PostgresTests", ["Postgres", "Reactor", "TestDatabase", "TestSupport"]),
        tests(
            "FeedTests",
            [
                "Bytes", "Sync", "Reactor", "Postgres", "Feed", "TestDatabase", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ]),
        tests(
            "StoreTests",
            [
                "Bytes", "Metrics", "Sync", "Reactor", "Postgres", "Store", "TestDatabase", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ]),
        tests(
            "IdentityTests",
            [
                "Identity", "Sync", .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Logging", package: "swift-log"),
            ]),
        tests(
            "GatewayTests",
            [
                "API", "Bytes", "CLockCount", "COpenSSL", "CZlib", "Channels", "Digests", "Feed", "Gateway", "HTTP",
                "Identity", "Metrics",
                "Postgres",
                "Pusher",
                "Reactor", "Store", "Sync", "TestDatabase", "TestSupport", "WebSocket",
                .product(name: "JWTKit", package: "jwt-kit"), .product(name: "Logging", package: "swift-log"),
            ]),
        tests(
            "CourierTests",
            [
                "Bytes", "CCurl", "Channels", "Courier", "Digests", "Metrics", "Pusher", "Reactor", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ]),
        tests(
            "OperationsTests", ["Metrics", "Operations", "Reactor"]),
        tests(
            "CarillonTests",
            [
                "carillon", "CDescriptorGuard", "Bytes", "Channels", "Courier", "Feed", "Gateway", "HTTP", "Postgres",
                "Store",
                "Sync",
                "TestSupport", "WebSocket",
                .product(name: "JWTKit", package: "jwt-kit"), .product(name: "Logging", package: "swift-log"),
            ]),
        tests(
            "LoadtestTests",
            ["loadtest", "Bytes", "Pusher", "Reactor", .product(name: "Histogram", package: "hdrhistogram-swift")]),
    ]
)
