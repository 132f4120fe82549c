import ArgumentParser
import Configuration
import JWTKit
import Logging

@main struct Carillon: ParsableCommand {}
