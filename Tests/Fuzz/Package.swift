// swift-tools-version: 6.2
import PackageDescription

// The parsers with libFuzzer, and nothing that needs a dependency: a package of its own, for libFuzzer brings a `main`
// and instruments all that it is built with. `Sources` leads to the hub's: what is fuzzed is what is shipped. Built by
// `run`, with the sanitizers' flags.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

func layer(_ name: String, _ dependencies: [Target.Dependency] = [], path: String? = nil) -> Target {
    .target(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
}

let package = Package(
    name: "fuzz",
    targets: [
        .systemLibrary(
            name: "COpenSSL", path: "Sources/System/COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CZlib", path: "Sources/System/CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
        layer("Bytes", path: "Sources/Values/Bytes"),
        layer("Clock", path: "Sources/Values/Clock"),
        layer("Digests", ["Bytes", "COpenSSL"], path: "Sources/Values/Digests"),
        layer("JSON", ["Bytes"], path: "Sources/Values/JSON"),
        layer("RESP", ["Bytes"], path: "Sources/Values/RESP"),
        layer("HTTP", ["Bytes", "Clock"], path: "Sources/Values/HTTP"),
        layer("WebSocket", ["Bytes", "CZlib", "Clock", "Digests", "HTTP"], path: "Sources/Values/WebSocket"),
        layer("Pusher", ["Bytes", "JSON", "Digests"], path: "Sources/Values/Pusher"),
        layer("Sync", ["Bytes", "Clock", "JSON"], path: "Sources/Values/Sync"),
        layer("Metrics", ["Bytes", "Clock"], path: "Sources/Values/Metrics"),
        layer(
            "HubEngine", ["Bytes", "Clock", "JSON", "Metrics", "Pusher", "Sync"], path: "Sources/Engine/HubEngine"),
        layer(
            "FuzzProperties", ["Bytes", "Digests", "HTTP", "HubEngine", "JSON", "Pusher", "RESP", "Sync", "WebSocket"],
            path: "Properties"),
        .executableTarget(name: "fuzz", dependencies: ["FuzzProperties"], path: "Entry", swiftSettings: settings),
    ]
)
