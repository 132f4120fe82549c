/// Private keys made for tests.
enum ProviderKeys {
    static let p256 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgVIoy+16vYqC4AFOE
        ZSh3eiSFlYWGhPgXEuXYB7per7ShRANCAAQQl4voneM8rszAxNqs8545YsV0GHS+
        HF7gw3XfIDVyiHIdXdYFKxh80h/w+g977NH8S9accmuvSZZTWr3MJfXM
        -----END PRIVATE KEY-----
        """
    static let rsa = """
        -----BEGIN PRIVATE KEY-----
        MIIEvwIBADANBgkqhkiG9w0BAQEFAASCBKkwggSlAgEAAoIBAQDnX3/Fsu0UGLSL
        ua6boQZcKpaLjrHSx4POA5ssC++p59PjJCEccRG+O+TgGjuNDoOAtPnCgtwbAl2e
        rPGYHnGXBRMgMnRbgRrqHIks5kGGEQS8ePYnLJjP5iLERmQV9vTdOEdh11MALqSB
        E2rQpQ7lclaVWn3b50WLiUCahmlSpXZD43mLXnLGnz5c1irY3O7Hd8eQUDRfjMvU
        cyCWcgMQ9n5cKWibaSCuwzWNvC9V5brjhNEXmRIiA0LdYdDqwiLAWZAa0kr0qlUY
        K2wNgC5nuryCQRnMlIx4X2fvjL/bDsGNSJmdRrXPOd4/TAUhYN8jhgycdilR38Bk
        O/J9LEbhAgMBAAECggEAF9SQNm6NWIqK3fFL+J+HJisEwm76Bbmi668XZlv8XUWR
        X02zU1iZ+Tv2ANby1z5tcO4y40PTI70Eo3kwkPhhvqo5JBHORjZv7TjvL/6vNP2/
        vSHASJyhSJhtcEXHvTNoWPiY8YzZ8aTcMKctUzwM4rj6Dfv6BpI1aX/DdabuZiKO
        f1x7qO8JSVF8jJM2nRxzfC42+XbkVCRFr0LGLv6ZnFvQKFdNYqhTh8Ou6pD0JZVo
        xcCYMdi87KmIDxlOW/x2WMjeA8b8UBDYKEPX7ithpb6ANHqKBN/h2PUctrfuJHwk
        u2PrccD5UdQxueRuYCmR87GCXGlw0nvnEAZDSRUl+QKBgQD0miZ3KELpxylVz/kI
        pjwoXJE7GUuya5/XLZt3f4UR8QBufVHNyw/gFS9gSIH2syApIcAjqBi3vDyPiB9W
        6Fk3USEbHiovgIz0nr6h0dekDzc8FG2PSC+4LHXkjo2VTJDeWQv+MvDWsUtIzqF7
        QkcHkqb7FuxWLNHx8cMlsgWfPwKBgQDyJ4oS8ekCbFrCKrhzuehH32uf+JPgHyNs
        g+7kahr2BNP8JKV6H4yFZOPoJefRrzpxjToZIOIsOf4LhlwilD3mJ0RV3P0O0oGl
        AJfKYl5wqka/C6VUE+jIvDZdFIN+vIXhtGbTLcowBTkC5BtR8je5LV/JdyJQ6POn
        nSBOmdSx3wKBgQDjljJIGGv5/NdXAsUh6Rp8K3Tt2iF2h3EX01WeIEZ+ZRETvQLK
        SjAhPVTxb0WNdylrW/3cr2EgQ8LNgcg3IsUwFQqKosx5mlCMos+Y3RiZi5bHDfLK
        qE3OPYAMAx91VOJOH+hqwpcYC6qSub/CYe6Y+zjm03Ne0yEczufWQQe+HQKBgQCz
        iVk3vp/xqgCIYUAsnTN4xk93ZcfNrYiIFjFyrLCcouvA0DLYHrgC1tCa+C+uKWr9
        caYXp2fJPp36UX3SLXLPR2HE/3moGa8BdTUVWmWGxth5INtNQQ2gdtsfm+v6dTAW
        Lbjm7dYwUE76s8EFur5RzzBroKaSsoSkSzz+ydMGpQKBgQC1x4j2ZVJKDkF33osu
        m9Mrfi1wsALfVSQjFjRfbLLPjgaj8h6bnM/1bRnXdb8xbgQ0A85WtvUlc7vDQ88b
        FdwWCise+AVQEUgMFeWQ5s2MVPcoDjmANDFaQZYjcwznOhcmscgaO1RIRHul0iWf
        k28sixKOlqATtH8PN07oLjicGQ==
        -----END PRIVATE KEY-----
        """
}
