// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "phone",
    platforms: [.macOS(.v13)],
    // In an app: the address of the repository in place of the path.
    dependencies: [.package(name: "carillon", path: "../../..", traits: [])],
    targets: [
        .executableTarget(name: "phone", dependencies: [.product(name: "CarillonClient", package: "carillon")])
    ]
)
