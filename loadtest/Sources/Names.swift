import Bytes
import Sync

/// The names of a run's users, rows and channels. All begin with the run's prefix and end with a number.
struct Names {
    /// Before the number of a user or row.
    let prefix: String
    /// The topics subscribed to, by number.
    let topics: [String]

    struct Stream {
        let user: Int
        let topic: Int
    }

    /// Names of the run called `run`, of ASCII letters and digits.
    init(run: String, topics: [String]) {
        prefix = "load-\(run)-"
        self.topics = topics
    }

    func id(_ number: Int) -> String { "\(prefix)\(number)" }

    /// An action's key, from the number of its device or row and the action's own number.
    func key(_ owner: Int, _ number: Int) -> String { "\(prefix)\(owner)-\(number)" }

    /// The numbers in `key`; nil if it is not of this run.
    func action(of key: UnsafeRawBufferPointer) -> (owner: Int, number: Int)? {
        guard let dash = key.lastIndex(of: UInt8(ascii: "-")), let owner = number(in: key.part(0..<dash)),
            let number = key.part(dash + 1..<key.count).decimalValue
        else { return nil }
        return (owner, number)
    }

    func channel(_ topic: Int, of user: Int) -> String {
        StreamName(form: .user, stream: StreamID(user: id(user), topic: topics[topic])).format() ?? ""
    }

    /// The number of the user or row called `id`; nil if it is not of this run.
    func number(in id: UnsafeRawBufferPointer) -> Int? {
        let digits = prefix.utf8.count
        guard id.count > digits, id.prefix(digits).elementsEqual(prefix.utf8) else { return nil }
        return id.part(digits..<id.count).decimalValue
    }

    /// The user and topic of the channel; nil if it is not of this run.
    func stream(of channel: UnsafeRawBufferPointer) -> Stream? {
        guard channel.hasPrefix("user."), let dot = channel.lastIndex(of: UInt8(ascii: ".")), dot > 5,
            let user = number(in: channel.part(5..<dot)),
            let topic = topics.firstIndex(where: { channel[(dot + 1)...].elementsEqual($0.utf8) })
        else { return nil }
        return Stream(user: user, topic: topic)
    }
}
