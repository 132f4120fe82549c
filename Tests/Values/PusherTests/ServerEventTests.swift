import Bytes
import Foundation
import JSON
import Pusher
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ServerEventTests {
    private func write(_ body: (inout ByteWriter) -> Void) -> String {
        var writer = ByteWriter(capacity: 16)
        body(&writer)
        return writer.string
    }

    @Test func writesTheFramesOfTheProtocol() throws {
        let channel = try #require(ChannelName("user.1.adherence"))
        let id = try #require(withBytes("123.456") { SocketID($0) })
        #expect(
            write { ServerEvent.connectionEstablished(id, activityTimeout: 120, to: &$0) }
                == #"{"event":"pusher:connection_established","data":"{\"socket_id\":\"123.456\",\"activity_timeout\":120}"}"#
        )
        #expect(write { ServerEvent.connectionEstablished(id, activityTimeout: 0, to: &$0) }.contains(#"timeout\":1}"#))
        #expect(write { ServerEvent.pong(to: &$0) } == #"{"event":"pusher:pong","data":"{}"}"#)
        #expect(write { ServerEvent.ping(to: &$0) } == #"{"event":"pusher:ping","data":"{}"}"#)
        #expect(
            write { ServerEvent.subscriptionSucceeded(channel, to: &$0) }
                == #"{"event":"pusher_internal:subscription_succeeded","channel":"user.1.adherence","data":"{}"}"#)
        #expect(
            write {
                ServerEvent.subscriptionSucceeded(
                    channel: { $0.append(utf8: channel.string) }, epoch: "e1", offset: 1288, to: &$0)
            }
                == #"{"event":"pusher_internal:subscription_succeeded","channel":"user.1.adherence","data":"{\"sync\":{\"epoch\":\"e1\",\"offset\":1288}}"}"#
        )
        #expect(
            write {
                let ending = ServerEvent.subscriptionErrorEnding(type: "AuthError", error: "No", status: 401)
                ServerEvent.subscriptionError(
                    channel: { $0.append(jsonEscaping: ("x\"y" as StaticString).bytes) }, ending: ending, to: &$0)
            }
                == #"{"event":"pusher:subscription_error","channel":"x\"y","data":"{\"type\":\"AuthError\",\"error\":\"No\",\"status\":401}"}"#
        )
        #expect(
            write { ServerEvent.signinSuccess(userData: (#"{"id":"u1"}"# as StaticString).bytes, to: &$0) }
                == #"{"event":"pusher:signin_success","data":"{\"user_data\":\"{\\\"id\\\":\\\"u1\\\"}\"}"}"#)
        #expect(
            write { ServerEvent.error("Oh \"no\"", to: &$0) }
                == #"{"event":"pusher:error","data":{"code":null,"message":"Oh \"no\""}}"#)
        #expect(
            write { ServerEvent.error(.rateLimited, to: &$0) }
                == #"{"event":"pusher:error","data":{"code":4301,"message":"Client event rejected due to rate limit"}}"#
        )
        let name: StaticString = "sync:auth_ok"
        #expect(
            write { ServerEvent.event(name, data: (#"{"userId":"1"}"# as StaticString).bytes, to: &$0) }
                == #"{"event":"sync:auth_ok","data":"{\"userId\":\"1\"}"}"#)
    }

    /// Clients read JSON whose `data` is a string with exactly the JSON that went in.
    @Test func eventsSurviveDoubleEncoding() throws {
        var random = SeededRandom()
        for _ in 0..<300 {
            var data = ByteWriter()
            data.append(#"{"note":"#)
            data.append(jsonString: random.text(upTo: 30))
            data.append("}")
            let name = random.text(upTo: 10)
            let message = write { writer in
                data.withUnsafeBytes { data in
                    ServerEvent.event(name, channel: { $0.append("user.1.a") }, data: data, to: &writer)
                }
            }
            let object = try JSONSerialization.jsonObject(with: Data(message.utf8)) as? [String: String]
            #expect(object?["event"].map { Array($0.utf8) } == Array(name.utf8), "seed \(random.seed)")
            #expect(object?["data"].map { Array($0.utf8) } == data.array, "seed \(random.seed)")
        }
    }

    /// The hundred says what the client does.
    @Test func codesAreTheProtocols() {
        let expected: [(ErrorCode, UInt16)] = [
            (.unknownApp, 4001), (.terminated, 4009), (.overCapacity, 4100), (.reconnect, 4200), (.pongTimeout, 4201),
            (.rateLimited, 4301),
        ]
        for (code, number) in expected { #expect(code.rawValue == number) }
    }

    @Test(
        arguments: [
            (nil, nil), ("", nil), ("5", nil), ("6", nil), ("7", nil), ("4", .unsupportedProtocol),
            ("8", .unsupportedProtocol),
            ("x", .invalidVersion), ("7.0", .invalidVersion), ("-7", .invalidVersion),
            ("99999999999999999999", .invalidVersion),
        ] as [(String?, ErrorCode?)]) func checksTheVersion(value: String?, code: ErrorCode?)
    {
        let result = value.map { text in withBytes(text) { ProtocolVersion.check($0) } } ?? ProtocolVersion.check(nil)
        #expect(result == code)
    }
}
