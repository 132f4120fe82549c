import Foundation
import JSON

/// What a client fetches: tokens and signatures from the app's backend, and snapshots from the hub.
struct ClientFetcher: Sendable {
    let options: CarillonOptions
    let transport: any ClientTransport

    /// A fresh token, from the app's backend.
    func token() async -> Result<String, CarillonError> {
        do {
            let token = try await options.token()
            return token.isEmpty ? .failure(.noToken) : .success(token)
        } catch {
            return .failure(error as? CarillonError ?? .noToken)
        }
    }

    /// What the app's backend signs of a channel.
    func authorization(of channel: String, _ socketID: String) async -> Result<CarillonChannelAuth, any Error> {
        do {
            guard let authorize = options.authorize else { throw CarillonError.invalid("there is no authorize") }
            return .success(try await authorize(channel, socketID))
        } catch {
            return .failure(error)
        }
    }

    /// The snapshots, fetched one after the other.
    func fetch(_ parts: [ClientSnapshot.Part]) async -> Result<[ClientSnapshot], CarillonError> {
        var snapshots: [ClientSnapshot] = []
        do {
            for part in parts {
                do {
                    snapshots.append(try await get(part))
                } catch CarillonError.http(404) where part.mayBeAbsent {
                    snapshots.append(.absent(part))
                }
            }
            return .success(snapshots)
        } catch {
            return .failure(CarillonError(error))
        }
    }

    private func get(_ part: ClientSnapshot.Part) async throws -> ClientSnapshot {
        guard let url = options.url(of: part) else { throw CarillonError.invalid("the hub's address") }
        let token = try await token().get()
        let reply = try await transport.get(url, fields: ["Authorization": "Bearer \(token)"])
        guard reply.status == 200 else { throw CarillonError.http(reply.status) }
        guard let position = reply.fields["x-sync-position"], let colon = position.lastIndex(of: ":"),
            let offset = Int64(position[position.index(after: colon)...]),
            let body = try? JSONTree(String(decoding: reply.body, as: UTF8.self))
        else { throw CarillonError.network("the answer has no position") }
        return ClientSnapshot(
            part: part, body: body, position: StoredPosition(epoch: String(position[..<colon]), offset: offset))
    }
}
